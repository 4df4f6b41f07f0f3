import { beforeEach, expect, test, vi } from "vitest";
import { Scene } from "../src/map/scene";

// a renderer that draws nothing and counts what it was asked to draw
let drawn: string[] = [];
let waited = () => {};
const gl = new Proxy({} as Record<string, unknown>, {
  get: (_, name: string) => {
    if (name === name.toUpperCase()) return name;
    return (...given: unknown[]) => {
      if (name === "readPixels") waited();
      if (name.startsWith("draw")) drawn.push(`${name} ${name === "drawArrays" ? given[2] : given[1]}`);
      return name === "isContextLost" ? false : {};
    };
  },
});
const canvas = { getContext: () => gl, addEventListener: () => {}, width: 100, height: 100 } as unknown as HTMLCanvasElement;

let waiting: (() => void)[] = [];
const nextFrame = () => waiting.splice(0).forEach((each) => each());
beforeEach(() => {
  vi.stubGlobal("requestAnimationFrame", (each: () => void) => waiting.push(each));
  vi.stubGlobal("matchMedia", () => ({ matches: true }));
  vi.stubGlobal("window", globalThis);
  vi.stubGlobal("devicePixelRatio", 1);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  waiting = [];
  waited = () => {};
});

function sceneOf(total: number): Scene {
  const scene = new Scene(canvas, 2, total);
  scene.resize(100, 100);
  scene.place(new Float32Array(2 * total).fill(0.5));
  for (let i = 0; i < 7; i++) nextFrame();
  drawn = [];
  return scene;
}

test("marks that come are drawn at once, and not again at the next frame", async () => {
  const scene = sceneOf(3);
  const done = scene.recolour(Uint8Array.of(0, 1, 0, 2, 0, 3));
  expect(drawn).toEqual(["drawArrays 3"]);
  expect(await done).toBeGreaterThan(0);
  nextFrame();
  expect(drawn.length).toBe(1);
});

test("of marks that come faster than frames only the last are drawn with the frame", async () => {
  const scene = sceneOf(3);
  const times = [1, 2, 3].map((each) => scene.recolour(new Uint8Array(6).fill(each)));
  expect(drawn.length).toBe(1);
  nextFrame();
  expect(drawn.length).toBe(2);
  expect((await Promise.all(times)).length).toBe(3);
});

/** Lets the clock run on by so many milliseconds whenever something was drawn and waited for. */
function drawingTakes(milliseconds: number): void {
  let now = 1000;
  vi.stubGlobal("performance", { now: () => now });
  waited = () => (now += milliseconds);
}

test("of very many rows a part is drawn while marks follow each other, and the rest when they rest, step by step", async () => {
  drawingTakes(130);
  const scene = sceneOf(250_000);
  void scene.recolour(undefined, true);
  expect(drawn).toEqual(["drawElements 20000"]);
  nextFrame();
  expect(drawn.length).toBe(1); // nothing more while it moves
  vi.advanceTimersByTime(600);
  for (let i = 0; i < 7; i++) nextFrame();
  expect(drawn.slice(1)).toEqual(new Array(5).fill("drawElements 50000"));
});

test("a picture of very many rows is finished when its last step is, and is begun anew when something changes", async () => {
  drawingTakes(130);
  const scene = sceneOf(250_000);
  let done = false;
  void scene.recolour().then(() => (done = true));
  nextFrame();
  await Promise.resolve();
  expect([drawn.length, done]).toEqual([2, false]);
  scene.pan(5, 0);
  nextFrame();
  await Promise.resolve();
  expect([drawn.length, done]).toEqual([3, true]); // while it moves the part is all there is to see
  expect(drawn).toEqual(["drawElements 50000", "drawElements 50000", "drawElements 20000"]);
});

test("where drawing is quick very many rows are drawn in one frame, also while they move", () => {
  drawingTakes(1);
  const scene = sceneOf(250_000);
  void scene.recolour();
  expect(drawn.length).toBe(5);
  scene.pan(5, 0);
  nextFrame();
  expect(drawn.slice(5)).toEqual(["drawElements 250000"]);
});

test("while very many rows move, every frame draws the same part of them, as many as a frame has time for", () => {
  drawingTakes(48);
  const scene = sceneOf(250_000);
  for (let i = 0; i < 8; i++) nextFrame();
  drawn.length = 0;
  for (let i = 0; i < 3; i++) {
    scene.pan(5, 0);
    nextFrame();
  }
  expect(drawn).toEqual(new Array(3).fill("drawElements 25000"));
});

test("while marks are waited for, the rest of very many rows is not begun", () => {
  drawingTakes(130);
  const scene = sceneOf(250_000);
  void scene.recolour(undefined, true);
  scene.expectMarks();
  vi.advanceTimersByTime(2000);
  nextFrame();
  expect(drawn.length).toBe(1);
  void scene.recolour(undefined, true);
  vi.advanceTimersByTime(600);
  for (let i = 0; i < 7; i++) nextFrame();
  expect(drawn.at(-1)).toBe("drawElements 50000");
});

test("a map that shows all rows shows them all when its pane changes, and one that was moved stays where it is", () => {
  const scene = sceneOf(3);
  scene.place(Float32Array.of(-1, -1, 1, 1, 0, 0));
  const inside = () => [0, 1].every((row) => scene.screen(row)!.every((at, axis) => at >= 0 && at <= [scene.camera.width, scene.camera.height][axis]));
  scene.resize(600, 240);
  expect(inside()).toBe(true);
  scene.zoom(2);
  const { zoom } = scene.camera;
  scene.resize(700, 240);
  expect(scene.camera.zoom).toBe(zoom);
});
