import { describe, expect, test } from "vitest";
import { bounds, fit, pan, toData, toScreen, zoomAt, type Camera } from "../src/map/camera";
import { Grid, contains } from "../src/map/grid";
import { BESIDE_ABOVE, Lasso, type Asked } from "../src/map/lasso";
import { fixedOrder } from "../src/map/points";

const camera: Camera = { x: 0.1, y: -0.2, zoom: 2, home: 1, width: 800, height: 500 };
let seed = 1;
const random = () => ((seed = (seed * 16807) % 2147483647) / 2147483647) * 2 - 1;
const positions = Float32Array.from({ length: 4000 }, random);

describe("the camera", () => {
  test("finds the place that a pixel shows", () => {
    const [x, y] = toData(camera, ...toScreen(camera, 0.3, 0.4));
    expect(x).toBeCloseTo(0.3);
    expect(y).toBeCloseTo(0.4);
  });
  test("keeps what is under the pointer when it zooms", () => {
    const before = toData(camera, 200, 90);
    const after = toData(zoomAt(camera, 1.7, 200, 90), 200, 90);
    expect(after[0]).toBeCloseTo(before[0]);
    expect(after[1]).toBeCloseTo(before[1]);
  });
  test("moves the map with the pointer", () => {
    const [x, y] = toScreen(camera, 0, 0);
    const [nx, ny] = toScreen(pan(camera, 30, -20), 0, 0);
    expect([nx - x, ny - y]).toEqual([expect.closeTo(30), expect.closeTo(-20)]);
  });
  test("fits a box inside the pane, clear of the tools", () => {
    const fitted = fit(camera, [-1, -0.5, 1, 0.5]);
    for (const [x, y] of [[-1, -0.5], [1, 0.5]]) {
      const [px, py] = toScreen(fitted, x, y);
      expect(px).toBeGreaterThanOrEqual(19.9);
      expect(px).toBeLessThanOrEqual(780.1);
      expect(py).toBeGreaterThanOrEqual(51.9);
      expect(py).toBeLessThanOrEqual(444.1);
    }
  });
  test("knows the bounds of some rows", () => {
    expect(bounds(Float32Array.of(0, 1, 2, 3, -4, 5), [0, 1])).toEqual([0, 1, 2, 3]);
  });
});

describe("picking", () => {
  const grid = new Grid(positions);
  test("finds the row that a search through all rows finds", () => {
    for (let k = 0; k < 200; k++) {
      const [x, y, reach] = [random(), random(), 0.05];
      let best = -1, closest = reach;
      for (let i = 0; i < 2000; i++) {
        const far = Math.hypot(positions[2 * i] - x, positions[2 * i + 1] - y);
        if (far <= closest) [best, closest] = [i, far];
      }
      expect(grid.nearest(x, y, reach)).toBe(best);
    }
  });
  test("finds nothing where nothing is", () => expect(new Grid(Float32Array.of(0, 0)).nearest(0.5, 0.5, 0.1)).toBe(-1));
  test("finds rows that lie outside [-1, 1]", () => expect(new Grid(Float32Array.of(1.2, -1.3)).nearest(1.2, -1.3, 0.01)).toBe(0));
});

describe("the lasso", () => {
  test("takes the rows inside a circle and no other", () => {
    const shape = Array.from({ length: 200 }, (_, i) => [0.2 + 0.4 * Math.cos((i / 100) * Math.PI), 0.4 * Math.sin((i / 100) * Math.PI)]).flat();
    const inside = new Set(new Grid(positions).inside(shape));
    for (let i = 0; i < 2000; i++) {
      const far = Math.hypot(positions[2 * i] - 0.2, positions[2 * i + 1]);
      if (Math.abs(far - 0.4) > 0.001) expect(inside.has(i)).toBe(far < 0.4);
    }
  });
  test("takes what asking every row takes: of shapes with holes, of slivers, and beyond the edges of the map", () => {
    const scattered = Float32Array.from({ length: 40_000 }, () => 2.6 * random() - 1.3);
    const grid = new Grid(scattered);
    const star = Array.from({ length: 5 }, (_, i) => [0.9 * Math.sin((i * 4 * Math.PI) / 5), 0.9 * Math.cos((i * 4 * Math.PI) / 5)]).flat();
    const sliver = [-0.9, -0.9, 0.9, 0.96, 0.9, 0.9];
    const beyond = [-2, -2, 2, -2, 2, 0.3, -2, 0.31];
    const comb = Array.from({ length: 40 }, (_, i) => [-0.8 + 0.04 * i, i % 2 ? 0.7 : -0.7]).flat();
    for (const shape of [star, sliver, beyond, comb]) {
      const one = Array.from({ length: 20_000 }, (_, row) => row).filter((row) => contains(shape, scattered[2 * row], scattered[2 * row + 1]));
      expect(one.length).toBeGreaterThan(20);
      expect([...grid.inside(shape)]).toEqual(one);
    }
  });
  test("leaves out the hole of a shape that crosses itself", () => {
    const star = Array.from({ length: 5 }, (_, i) => [Math.sin((i * 4 * Math.PI) / 5), Math.cos((i * 4 * Math.PI) / 5)]).flat();
    expect(contains(star, 0, 0)).toBe(false);
    expect(contains(star, 0, 0.7)).toBe(true);
  });
  test("of very many rows is worked out by a worker, which is given them once", async () => {
    const many = Float32Array.from({ length: 2 * BESIDE_ABOVE + 2 }, random);
    const shape = [0, 0, 0.01, 0, 0.01, 0.01, 0, 0.01];
    const asked: Asked[] = [];
    let grid = new Grid(new Float32Array(0));
    const worker = {
      onmessage: (_: unknown) => {},
      postMessage(data: Asked) {
        asked.push(data);
        if (data.positions) grid = new Grid(data.positions);
        this.onmessage({ data: { id: data.id, rows: grid.inside(data.shape) } });
      },
    };
    const here = new Grid(many);
    const lasso = new Lasso(() => here);
    const alone = await lasso.inside(many, shape); // a notebook has no worker
    Lasso.worker = () => worker as unknown as Worker;
    expect(await lasso.inside(many, shape)).toEqual(alone);
    expect(await lasso.inside(many, shape)).toEqual(alone);
    expect(alone.length).toBeGreaterThan(0);
    expect(asked.map((each) => !!each.positions)).toEqual([true, false]);
    Lasso.worker = null;
  });
  test("of a line takes nothing", () => expect(new Grid(positions).inside([0, 0, 1, 1]).length).toBe(0));
});

test("very many rows are drawn in an order that is the same every time, without repeats, from everywhere", () => {
  const rows = fixedOrder(250_001);
  const again = fixedOrder(250_001);
  expect(rows.every((row, at) => row === again[at])).toBe(true);
  expect(new Set(rows).size).toBe(250_001);
  const first = rows.subarray(0, 1000);
  for (let tenth = 0; tenth < 10; tenth++) expect(first.filter((row) => Math.floor(row / 25_000.2) === tenth).length).toBeGreaterThan(60);
});
