import { describe, expect, test } from "vitest";
import { band, path } from "../src/logic/curves";
import { chance, functionName, milliseconds, percent, radius, range, rate, reaches, signed } from "../src/logic/formats";
import { KEYS, actionOf, classKeys, digitAction, skipKey } from "../src/logic/keys";
import { Latest } from "../src/logic/latest";
import { readPlace, writePlace } from "../src/logic/link";
import { asBits, spread, union } from "../src/logic/selection";
import { scrollTo, visible } from "../src/logic/windowing";

const press = (key: string, held: Partial<Record<"ctrlKey" | "metaKey" | "shiftKey" | "altKey", boolean>> = {}) =>
  ({ key, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, ...held });

describe("numbers in words", () => {
  test("a rate of few is a count, of many a percentage", () => {
    expect(rate({ value: 14 / 15, low: 0.7, high: 0.99, n: 15 })).toBe("14 of 15");
    expect(rate({ value: 0.973, low: 0.9, high: 0.99, n: 150 })).toBe("97 %");
    expect(rate(null)).toBe("–");
  });
  test("a source reaches as far as is set, or as the model chose", () => {
    expect(reaches({ radius: 0.2, reach: null })).toBe(0.2);
    expect(reaches({ radius: "auto", reach: 0.1 })).toBe(0.1);
    expect(reaches({ radius: "auto", reach: null })).toBe(null); // it lends nothing
  });
  test("an interval is two whole percentages", () => expect(range({ value: 0.9, low: 0.705, high: 0.988, n: 9 })).toBe("71–99 %"));
  test("a radius has no leading zero, and says when it lends nothing", () => {
    expect([radius(0.4741), radius(1.25), radius(0), radius(null), radius("auto")]).toEqual([".474", "1.250", ".000", "–", "auto"]);
  });
  test("chances, shares, signs and times", () => {
    expect([chance(0.5), chance(0.999), chance(null)]).toEqual([".50", "1.0", ""]);
    expect([percent(0.1234), percent(null)]).toEqual(["12.3 %", "–"]);
    expect([signed(1.384), signed(-0.03)]).toEqual(["+1.38", "−0.03"]);
    expect([milliseconds(0.71), milliseconds(38.4)]).toEqual(["0.7 ms", "38 ms"]);
  });
  test("a function's name is a Python name made of its words", () => {
    expect([functionName("Free Entry"), functionName("150p/min!"), functionName("£££"), functionName("\\bwin\\b")]).toEqual(["free_entry", "f_150p_min", "", "bwin_b"]);
  });
});

describe("keys", () => {
  test("no key stands for two things", () => {
    const all = KEYS.flatMap(({ keys }) => keys);
    expect(new Set(all).size).toBe(all.length);
  });
  test("undo and redo answer to U and to the platform's keys", () => {
    expect(actionOf(press("u"))).toBe("undo");
    expect(actionOf(press("z", { metaKey: true }))).toBe("undo");
    expect(actionOf(press("z", { ctrlKey: true, shiftKey: true }))).toBe("redo");
    expect(actionOf(press("U", { shiftKey: true }))).toBe("redo");
    expect(actionOf(press("?", { shiftKey: true }))).toBe("keys");
    expect(actionOf(press("z"))).toBeNull();
    expect(actionOf(press("c", { ctrlKey: true }))).toBeNull();
    expect(actionOf(press("v", { altKey: true }))).toBeNull();
  });
  test("digits label: one for the first class, or the digit itself where classes are digits", () => {
    expect(digitAction(press("2"), ["ham", "spam"])).toEqual({ label: "spam" });
    expect(digitAction(press("3"), ["ham", "spam"])).toBeNull();
    expect(digitAction(press("0"), ["ham", "spam"])).toBe("skip");
    const digits = [..."0123456789"];
    expect(digitAction(press("0"), digits)).toEqual({ label: "0" });
    expect(skipKey(digits)).toBe(".");
    expect(classKeys(Array.from({ length: 12 }, (_, i) => `c${i}`)).slice(8)).toEqual(["9", "", "", ""]);
  });
});

describe("dragging", () => {
  test("keeps one request in flight and sends only the newest value after it", async () => {
    const sent: number[] = [];
    const gates: (() => void)[] = [];
    const latest = new Latest<number>((value) => {
      sent.push(value);
      return new Promise<void>((resolve) => gates.push(resolve));
    });
    for (const value of [1, 2, 3, 4]) latest.give(value);
    expect(sent).toEqual([1]);
    gates[0]();
    await Promise.resolve();
    await Promise.resolve();
    expect(sent).toEqual([1, 4]);
    latest.give(5);
    latest.forget();
    gates[1]();
    await new Promise((resolve) => setTimeout(resolve));
    expect(sent).toEqual([1, 4]);
    latest.give(6);
    expect(sent).toEqual([1, 4, 6]);
  });
});

describe("links", () => {
  test("come back as they were written", () => {
    const place = { tab: "why", colour: "source" as const, source: "a b&c", row: 12, filter: "near" as const, find: "50 % #1", at: 7 };
    expect(readPlace(writePlace(place))).toEqual(place);
    expect(writePlace({})).toBe("");
  });
  test("leave out what they do not know", () => {
    const read = readPlace("#tab=admin&colour=<b>&row=-1&filter=__proto__&at=1e9&source=x");
    expect(read).toEqual({ tab: undefined, colour: undefined, row: undefined, filter: undefined, find: undefined, at: undefined, source: "x" });
  });
});

describe("a windowed list", () => {
  test("holds the lines in view and a few beside them", () => {
    expect(visible(1000, 20, 2000, 400)).toEqual({ first: 96, last: 124, offset: 1920, height: 20000 });
    expect(visible(3, 20, 0, 400)).toMatchObject({ first: 0, last: 3 });
    expect(visible(0, 20, 0, 400)).toMatchObject({ first: 0, last: 0, height: 0 });
  });
  test("reaches the last of ten million lines", () => {
    const { height } = visible(10_000_000, 48, 0, 600);
    expect(height).toBeLessThan(33_000_000);
    expect(visible(10_000_000, 48, height - 600, 600).last).toBe(10_000_000);
  });
  test("scrolls to a line only when it is out of view", () => {
    expect(scrollTo(5, 100, 20, 0, 400)).toBeNull();
    expect(scrollTo(50, 100, 20, 0, 400)).toBe(51 * 20 - 400);
    expect(scrollTo(2, 100, 20, 400, 400)).toBe(40);
  });
});

test("curves break where there is no value", () => {
  const same = (value: number) => value;
  expect(path([0, 1, 2, 3], [5, null, 6, 7], same, same)).toBe("M0.0 5.0M2.0 6.0L3.0 7.0");
  expect(band([0, 1, 2], [null, 1, 1], [null, 2, 3], same, same)).toBe("M1.0 2.0L2.0 3.0L2.0 1.0L1.0 1.0Z");
});

test("selections join without repeats", () => {
  expect([...union(Uint32Array.of(5, 1), Uint32Array.of(3, 5))]).toEqual([1, 3, 5]);
  expect([...union(null, Uint32Array.of(3))]).toEqual([3]);
});

test("many rows are told as one bit a row, and read back they are the same rows", () => {
  const rows = Uint32Array.of(0, 7, 8, 100_000, 199_999);
  const bytes = Uint8Array.from(atob(asBits(rows, 200_001)), (each) => each.charCodeAt(0));
  expect(bytes.length).toBe(25_001);
  const found = [...bytes].flatMap((byte, at) => [0, 1, 2, 3, 4, 5, 6, 7].filter((bit) => byte & (1 << bit)).map((bit) => 8 * at + bit));
  expect(found).toEqual([...rows]);
});

test("of many rows some are taken from everywhere, of few all", () => {
  expect(spread(Uint32Array.from({ length: 100 }, (_, i) => i), 4)).toEqual([0, 25, 50, 75]);
  expect(spread([3, 5], 40)).toEqual([3, 5]);
});
