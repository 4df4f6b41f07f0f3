import type { ColourBy } from "../protocol";
import { bounds, fit, pan, perPixel, toData, toScreen, zoomAt, type Camera } from "./camera";
import { Grid } from "./grid";
import { Lasso } from "./lasso";
import type { Theme } from "./palette";
import { Points, STEP, type Look } from "./points";

const GLIDE = 700;
const REST = { moved: 160, tried: 500, asked: 5000 }; // milliseconds without another step after which all rows are drawn
const BUDGET = 24; // milliseconds of a frame in which steps of very many rows are drawn
const FEWEST = 20_000; // rows of very many that are drawn while something moves, however slow drawing is

/** The map without its frame: positions, marks, camera and when to draw. Knows nothing of the page. */
export class Scene {
  camera: Camera = { x: 0, y: 0, zoom: 1, home: 1, width: 1, height: 1 };
  positions: Float32Array = new Float32Array(0);
  marks: Uint8Array = new Uint8Array(0);
  by: ColourBy = "label";
  theme: Theme = "light";
  frames = 0;
  turned = false; // x and y changed places, to lay the long side along the pane's
  onframe: (camera: Camera) => void = () => {};
  private points: Points;
  private flags = new Uint8Array(0);
  private selecting = false;
  private grid: Grid | null = null;
  private lasso = new Lasso(() => this.index());
  private before: Float32Array = new Float32Array(0);
  private glideFrom = -Infinity;
  private given: Float32Array | null = null; // as the server gave them, not turned
  private whole = false; // the camera shows all rows, and does so when the pane changes
  private moving = 0;
  private asked = false;
  private stale = false; // something changed since the last drawing
  private drawn = 0; // rows of the picture that are on the canvas
  private part = FEWEST; // rows that a frame has time for, as measured when all rows were drawn last
  private fresh = false; // drawn out of turn; once between two animation frames
  private watching: (() => void)[] = [];

  constructor(private canvas: HTMLCanvasElement, classes: number, rows = 0) {
    this.points = new Points(canvas, classes, rows);
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      this.points.build();
      this.upload();
    });
  }

  resize(width: number, height: number): void {
    if (width < 2 || height < 2) return;
    const ratio = Math.min(2, devicePixelRatio || 1);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const first = this.camera.width === 1;
    this.camera = { ...this.camera, width, height };
    if (first && this.given) this.place(this.given);
    else if (this.whole) this.fit();
    this.draw();
  }

  /** New places for the rows. Where the rows were shown before, they glide once. */
  place(positions: Float32Array): void {
    const glide = positions.length === this.positions.length && positions.length > 0 && positions !== this.given;
    this.given = positions;
    const [left, bottom, right, top] = bounds(positions);
    const { width, height } = this.camera;
    this.turned = right - left > (top - bottom) * 1.15 !== width > height && Math.abs(right - left - (top - bottom)) > 0.1;
    const placed = this.turned ? swapped(positions) : positions.slice();
    this.before = glide ? this.positions : placed;
    this.positions = placed;
    this.grid = null;
    if (this.marks.length !== placed.length) this.marks = new Uint8Array(placed.length).fill(255);
    if (this.flags.length !== placed.length >> 1) this.flags = new Uint8Array(placed.length >> 1);
    this.glideFrom = glide && !matchMedia("(prefers-reduced-motion: reduce)").matches ? performance.now() : -Infinity;
    this.upload();
    this.fit();
  }

  /**
   * Give the bytes of marks again to the screen; resolves when a frame with them is finished. They are drawn at once
   * and not when the next frame begins, because everything that is painted before waits for the same renderer.
   * While something is tried, more marks will follow soon: of very many rows a part is drawn, and the rest when they rest.
   */
  recolour(marks?: Uint8Array, trying = false): Promise<number> {
    if (trying) this.hold(REST.tried);
    if (marks && marks.length === this.marks.length) this.marks = marks.slice();
    this.points.setMarks(this.marks);
    const done = this.painted();
    if (!this.fresh) this.frame();
    this.fresh = true;
    return done;
  }

  /** Marks of something tried have been asked for: what is drawn until they come would be drawn in vain. */
  expectMarks(): void {
    this.hold(REST.asked);
  }

  flag(selection: Uint32Array | null, hand: Uint32Array): void {
    this.flags.fill(0);
    for (const row of hand) if (row < this.flags.length) this.flags[row] |= 2;
    if (selection) for (const row of selection) if (row < this.flags.length) this.flags[row] |= 1;
    this.selecting = selection !== null && selection.length > 0;
    this.points.setFlags(this.flags);
    this.draw();
  }

  draw(): void {
    this.stale = true;
    this.ask();
  }

  private ask(): void {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = this.fresh = false;
      if (this.stale) this.frame();
      else if (this.drawn < this.points.total && !this.moving) this.frame(this.drawn);
    });
  }

  /** The time at which the next picture is finished: all rows, or the part that is drawn while something moves. */
  painted(): Promise<number> {
    return new Promise((resolve) => {
      this.watching.push(() => {
        this.points.finish();
        resolve(performance.now());
      });
      this.draw();
    });
  }

  zoom(factor: number, px = this.camera.width / 2, py = this.camera.height / 2): void {
    this.move(zoomAt(this.camera, factor, px, py));
  }

  pan(dx: number, dy: number): void {
    this.move(pan(this.camera, dx, dy));
  }

  fit(rows?: ArrayLike<number>): void {
    const box = bounds(this.positions, rows);
    const least = rows ? 0.12 / this.camera.home : 0;
    const grow = (low: number, high: number) => Math.max(0, least - (high - low)) / 2;
    const [gx, gy] = [grow(box[0], box[2]), grow(box[1], box[3])];
    this.camera = fit(this.camera, [box[0] - gx, box[1] - gy, box[2] + gx, box[3] + gy]);
    this.whole = !rows;
    if (!rows) this.camera.home = this.camera.zoom;
    this.draw();
  }

  screen(row: number): [number, number] | null {
    return 2 * row + 1 < this.positions.length ? toScreen(this.camera, this.positions[2 * row], this.positions[2 * row + 1]) : null;
  }

  /** A place of the server's picture on the screen. */
  at(x: number, y: number): [number, number] {
    return this.turned ? toScreen(this.camera, y, x) : toScreen(this.camera, x, y);
  }

  pick(px: number, py: number, reach = 12): number {
    const [x, y] = toData(this.camera, px, py);
    return this.index().nearest(x, y, reach * perPixel(this.camera));
  }

  /** The rows within the pane; those of a map not zoomed are not asked for. */
  visible(): number[] {
    const [left, top] = toData(this.camera, 0, 0), [right, bottom] = toData(this.camera, this.camera.width, this.camera.height);
    const found: number[] = [];
    this.index().within(left, bottom, right, top, (row) => {
      const x = this.positions[2 * row], y = this.positions[2 * row + 1];
      if (x >= left && x <= right && y >= bottom && y <= top) found.push(row);
    });
    return found.sort((a, b) => a - b); // the same ones stay while the map is moved
  }

  inside(path: [number, number][]): Promise<Uint32Array> {
    return this.lasso.inside(this.positions, path.flatMap(([px, py]) => toData(this.camera, px, py)));
  }

  private index(): Grid {
    return (this.grid ??= new Grid(this.positions));
  }

  private move(camera: Camera): void {
    this.camera = camera;
    this.whole = false;
    this.hold(REST.moved);
    this.draw();
  }

  private hold(milliseconds: number): void {
    if (!this.points.inSteps) return;
    clearTimeout(this.moving);
    this.moving = window.setTimeout(() => {
      this.moving = 0;
      this.draw();
    }, milliseconds);
  }

  private upload(): void {
    this.points.setPositions(this.before, this.positions);
    this.points.setMarks(this.marks);
    this.points.setFlags(this.flags);
    this.draw();
  }

  /** Draw the picture anew, or go on with it from where it was left. */
  private frame(from = 0): void {
    this.stale = false;
    const part = Math.min(1, (performance.now() - this.glideFrom) / GLIDE);
    const moved = part < 1 ? part * part * (3 - 2 * part) : 1;
    const look = {
      by: this.by, theme: this.theme, selecting: this.selecting && this.by !== "draft", moved,
      pixels: this.canvas.width / this.camera.width,
    };
    const rests = part === 1 && !this.moving;
    if (!this.points.inSteps) this.points.draw(this.camera, look);
    this.drawn = this.points.inSteps ? this.steps(look, from, rests) : this.points.total;
    this.frames++;
    this.onframe(this.camera);
    const whole = this.drawn === this.points.total;
    if (whole || !rests) for (const tell of this.watching.splice(0)) tell();
    if (part < 1) this.draw();
    else if (!whole && rests) this.ask();
  }

  /**
   * Draw very many rows: at rest step by step, as many as the frame has time for; while something moves the same
   * part of them in every frame, as many as a frame had time for then, each as large as so few may be.
   */
  private steps(look: Look, from: number, rests: boolean): number {
    const { points } = this;
    if (!rests) {
      const part = Math.min(points.total, this.part);
      points.draw(this.camera, { ...look, rows: part }, 0, part);
      return part;
    }
    const begun = performance.now();
    let drawn = from;
    do {
      const to = Math.min(points.total, drawn + STEP);
      points.draw(this.camera, look, drawn, to);
      drawn = to;
      points.finish();
    } while (drawn < points.total && (!points.keeps || performance.now() - begun < BUDGET));
    const took = Math.max(0.1, performance.now() - begun);
    if (drawn - from >= STEP) this.part = Math.max(FEWEST, Math.floor((BUDGET * (drawn - from)) / took));
    return drawn;
  }
}

function swapped(positions: Float32Array): Float32Array {
  const out = new Float32Array(positions.length);
  for (let i = 0; i < out.length; i += 2) [out[i], out[i + 1]] = [positions[i + 1], positions[i]];
  return out;
}
