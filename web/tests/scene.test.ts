import { beforeEach, expect, test, vi } from "vitest";
import { Scene } from "../src/map/scene";

// a renderer that draws nothing and counts what it was asked to draw
let drawn: string[] = [];
const gl = new Proxy({} as Record<string, unknown>, {
  get: (_, name: string) => {
    if (name === name.toUpperCase()) return name;
    return (...given: unknown[]) => {
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
});

function sceneOf(total: number): Scene {
  const scene = new Scene(canvas, 2);
  scene.resize(100, 100);
  scene.place(new Float32Array(2 * total).fill(0.5));
  nextFrame();
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

test("of very many rows a part is drawn while marks follow each other, and all when they rest", () => {
  const scene = sceneOf(200_001);
  void scene.recolour(undefined, true);
  expect(drawn).toEqual(["drawElements 100000"]);
  vi.advanceTimersByTime(600);
  nextFrame();
  expect(drawn.at(-1)).toBe("drawArrays 200001");
});
