import { describe, expect, test } from "vitest";
import { applyMarks } from "../src/map/marks";
import { asFloat32, asUint32, decodeFrame } from "../src/transport/frames";

function frame(head: object, bytes: number[]): ArrayBuffer {
  const text = new TextEncoder().encode(JSON.stringify(head));
  const start = Math.ceil((4 + text.length) / 8) * 8;
  const out = new Uint8Array(start + bytes.length);
  new DataView(out.buffer).setUint32(0, text.length, true);
  out.set(text, 4);
  out.set(bytes, start);
  return out.buffer;
}
const head = (sparse: boolean, n: number) => ({ by: "label" as const, source: null, version: 1, request: 0, sparse, n });

describe("a binary frame", () => {
  test("gives its head and the bytes after the padding", () => {
    const { head, bytes } = decodeFrame(frame({ id: 7, word: "é" }, [1, 2, 3]));
    expect(head).toEqual({ id: 7, word: "é" });
    expect([...bytes]).toEqual([1, 2, 3]);
  });
  test("may carry no bytes", () => expect(decodeFrame(frame({}, [])).bytes.length).toBe(0));
  test("whose head is longer than itself is refused", () => {
    const broken = new ArrayBuffer(8);
    new DataView(broken).setUint32(0, 99, true);
    expect(() => decodeFrame(broken)).toThrow("longer than the frame");
    expect(() => decodeFrame(new ArrayBuffer(2))).toThrow("too short");
  });
  test("is read as little-endian numbers, aligned or not", () => {
    const whole = new Uint8Array([9, 0, 0, 128, 63, 5, 0, 0, 0]);
    expect(asFloat32(whole.subarray(1, 5))[0]).toBe(1);
    expect(asUint32(whole.subarray(5))[0]).toBe(5);
  });
});

describe("marks", () => {
  test("a sparse difference changes the rows it names and no other", () => {
    const marks = new Uint8Array([0, 10, 1, 20, 0, 30]);
    const bytes = new Uint8Array([2, 0, 0, 0, 0, 0, 0, 0, 1, 99, 255, 0]);
    expect(applyMarks(marks, { head: head(true, 2), bytes })).toBe(true);
    expect([...marks]).toEqual([255, 0, 1, 20, 1, 99]);
  });
  test("a whole frame replaces all", () => {
    const marks = new Uint8Array(4);
    expect(applyMarks(marks, { head: head(false, 2), bytes: new Uint8Array([1, 2, 3, 4]) })).toBe(true);
    expect([...marks]).toEqual([1, 2, 3, 4]);
  });
  test("a frame of other rows is refused, so that the page asks again", () => {
    const marks = new Uint8Array(4);
    expect(applyMarks(marks, { head: head(false, 3), bytes: new Uint8Array(6) })).toBe(false);
    expect(applyMarks(marks, { head: head(true, 2), bytes: new Uint8Array(6) })).toBe(false);
    expect(applyMarks(marks, { head: head(true, 1), bytes: new Uint8Array([9, 0, 0, 0, 1, 1]) })).toBe(false);
  });
});
