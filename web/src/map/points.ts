import type { ColourBy } from "../protocol";
import { perPixel, type Camera } from "./camera";
import { SURFACE, colours, rgb, type Theme } from "./palette";
import { FRAGMENT, MODES, PALETTE, VERTEX } from "./shaders";

const MANY = 200_000;
/** Rows of very many that are drawn at a time. */
export const STEP = 50_000;

/** `rows` are those that will be seen, where they are not all. */
export interface Look { by: ColourBy; theme: Theme; selecting: boolean; moved: number; pixels: number; rows?: number }

/**
 * All rows as points in WebGL2: positions once, two bytes a row for their marks, one byte for flags.
 * Very many are drawn in steps, in an order that is random and always the same: the first steps are a fair part of all.
 */
export class Points {
  private gl: WebGL2RenderingContext;
  private program!: WebGLProgram;
  private where!: Record<string, WebGLUniformLocation | null>;
  private buffers!: Record<"before" | "after" | "mark" | "flag" | "order", WebGLBuffer>;
  /** Whether what was drawn stays on the canvas, so that more can be drawn onto it. */
  readonly keeps: boolean;
  total = 0;
  private dressed = "";
  private ordered = false;

  constructor(canvas: HTMLCanvasElement, private classes: number, rows: number) {
    this.keeps = rows > MANY;
    // opaque: what lies under the canvas need not be painted, nor blended with it
    const gl = canvas.getContext("webgl2", { antialias: false, alpha: false, preserveDrawingBuffer: this.keeps });
    if (!gl) throw new Error("This browser has no WebGL2, so the map cannot be drawn. Everything else works.");
    this.gl = gl;
    this.build();
  }

  /** Compile and make the buffers; also after a lost context came back, before data is given again. */
  build(): void {
    const gl = this.gl;
    this.program = link(gl);
    gl.useProgram(this.program);
    gl.bindVertexArray(gl.createVertexArray());
    const names = ["scale", "centre", "moved", "size", "mode", "selecting", "palette", "ink", "dim"];
    this.where = Object.fromEntries(names.map((name) => [name, gl.getUniformLocation(this.program, name)]));
    const made = () => gl.createBuffer()!;
    this.buffers = { before: made(), after: made(), mark: made(), flag: made(), order: made() };
    this.dressed = "";
    this.ordered = false;
    gl.depthFunc(gl.LEQUAL);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  setPositions(before: Float32Array, after: Float32Array): void {
    const gl = this.gl;
    this.fill("before", before, 2);
    this.fill("after", after, 2);
    const total = after.length >> 1;
    if (total > MANY && (total !== this.total || !this.ordered)) {
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.buffers.order);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, fixedOrder(total), gl.STATIC_DRAW);
      this.ordered = true;
    }
    this.total = total;
  }

  /** Whether there are so many rows that they are drawn in steps. */
  get inSteps(): boolean {
    return this.total > MANY;
  }

  setMarks(marks: Uint8Array): void {
    this.fill("mark", marks, 2);
  }

  setFlags(flags: Uint8Array): void {
    this.fill("flag", flags, 1);
  }

  /** Draw the rows of the order from one place up to another, onto what is there, or from the first on an empty canvas. */
  draw(camera: Camera, look: Look, from = 0, to = this.total): void {
    const { gl, where } = this;
    gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
    if (from === 0) {
      gl.clearColor(...rgb(SURFACE[look.theme]), 1);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    }
    if (!this.total) return;
    this.dress(look.theme);
    const k = 1 / perPixel(camera);
    gl.uniform2f(where.scale, (2 * k) / camera.width, (2 * k) / camera.height);
    gl.uniform2f(where.centre, camera.x, camera.y);
    gl.uniform1f(where.moved, look.moved);
    gl.uniform1f(where.size, pointSize(look.rows ?? this.total, camera) * look.pixels);
    gl.uniform1i(where.mode, MODES[look.by]);
    gl.uniform1i(where.selecting, look.selecting ? 1 : 0);
    if (look.by === "label" && !look.selecting) gl.disable(gl.DEPTH_TEST);
    else gl.enable(gl.DEPTH_TEST);
    if (this.inSteps) gl.drawElements(gl.POINTS, to - from, gl.UNSIGNED_INT, 4 * from);
    else gl.drawArrays(gl.POINTS, 0, this.total);
  }

  /** Waits until everything drawn is on the canvas: reading one pixel cannot end earlier. */
  finish(): void {
    this.gl.readPixels(0, 0, 1, 1, this.gl.RGBA, this.gl.UNSIGNED_BYTE, new Uint8Array(4));
  }

  private dress(theme: Theme): void {
    if (this.dressed === theme) return;
    const { gl, where } = this;
    const palette = colours(Math.min(this.classes, PALETTE), theme).flatMap(rgb);
    gl.uniform3fv(where.palette, new Float32Array([...palette, ...new Array(3 * PALETTE - palette.length).fill(0)]));
    gl.uniform3fv(where.ink, rgb(theme === "dark" ? "#ededeb" : "#1b1c1e"));
    gl.uniform3fv(where.dim, rgb(theme === "dark" ? "#44474d" : "#c9cac6"));
    this.dressed = theme;
  }

  private fill(name: "before" | "after" | "mark" | "flag", data: Float32Array | Uint8Array, width: number): void {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.DYNAMIC_DRAW);
    const place = gl.getAttribLocation(this.program, name);
    gl.enableVertexAttribArray(place);
    if (data instanceof Uint8Array) gl.vertexAttribIPointer(place, width, gl.UNSIGNED_BYTE, 0, 0);
    else gl.vertexAttribPointer(place, width, gl.FLOAT, false, 0, 0);
  }
}

/** Pixels across a point: so many that the pane is a little covered, and it grows slowly with the zoom. */
export function pointSize(total: number, camera: Camera): number {
  const fair = Math.sqrt((camera.width * camera.height * 0.3) / Math.max(1, total));
  return Math.min(14, Math.max(1.6, Math.min(7.5, fair)) * Math.max(1, camera.zoom / camera.home) ** 0.3);
}

/** All rows in an order that looks random and is the same every time: a step through the numbers that never repeats. */
export function fixedOrder(total: number): Uint32Array {
  const rows = new Uint32Array(total);
  let step = Math.floor(total * 0.6180339887) | 1;
  while (gcd(step, total) !== 1) step += 2;
  for (let i = 0, at = 0; i < rows.length; i++, at = (at + step) % total) rows[i] = at;
  return rows;
}

const gcd = (a: number, b: number): number => (b ? gcd(b, a % b) : a);

function link(gl: WebGL2RenderingContext): WebGLProgram {
  const program = gl.createProgram()!;
  for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
    const shader = gl.createShader(kind)!;
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost())
    throw new Error(`The map's shaders do not link: ${gl.getProgramInfoLog(program)}`);
  return program;
}
