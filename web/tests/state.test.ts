import { beforeEach, describe, expect, test } from "vitest";
import { Studio } from "../src/state/studio.svelte";
import { VerbError } from "../src/transport/transport";
import { CHANGE, FakeTransport, STATE } from "./fake";

const settle = () => new Promise((resolve) => setTimeout(resolve, 5));
let carrier: FakeTransport;
let studio: Studio;
beforeEach(async () => {
  carrier = new FakeTransport();
  studio = new Studio(carrier, new EventTarget(), false);
  await settle();
});

describe("the state", () => {
  test("is asked for at the start, and again after a lost connection", async () => {
    expect(carrier.bodies("state").length).toBe(1);
    carrier.connection("lost");
    expect(studio.connection).toBe("lost");
    carrier.connection("open");
    await settle();
    expect(carrier.bodies("state").length).toBe(2);
  });
  test("follows what another page changed, and keeps the scores before for the ring", () => {
    const comparison = [{ name: "majority", title: "Majority", inUse: false, accuracy: null, f1: null }];
    carrier.push("change", { change: CHANGE, state: { ...STATE, comparison } });
    expect(studio.state!.comparison).toEqual(comparison);
    expect(studio.before).toEqual([]);
    expect(studio.last!.flipped).toBe(3);
  });
  test("shows a refusal in words", async () => {
    carrier.answers.radius = () => Promise.reject(new VerbError("No such source.", "ParameterError"));
    await studio.edit("radius", { source: "x", radius: 1 });
    expect(studio.message).toBe("No such source.");
    studio.message = "";
  });
  test("a link names what is looked at and the number of the last edit", () => {
    studio.openSource("free");
    studio.openRow(2);
    studio.rows.filter = "wrong";
    expect(studio.link()).toBe("#tab=source&source=free&row=2&filter=wrong&at=4");
  });
  test("looks at no source that is gone", async () => {
    studio.openSource("free");
    carrier.answers.source = () => Promise.reject(new VerbError("no source named 'free'", "UnknownName"));
    carrier.push("change", { change: { ...CHANGE, what: "remove free" }, state: STATE });
    await settle();
    expect([studio.source, studio.tab, studio.by, studio.message]).toEqual([null, "rows", "label", ""]);
  });
});

describe("a list that is fetched in parts", () => {
  const line = (row: number) => ({ row }) as never;
  test("asks for each part once, and for what is in view again after a change", async () => {
    carrier.answers.rows = ({ offset, limit }: { offset: number; limit: number }) => ({
      total: 200, rows: Array.from({ length: Math.min(limit, 200 - offset) }, (_, i) => line(offset + i)), counts: { all: 200 },
    });
    await studio.rows.refresh();
    await Promise.all([studio.rows.want(50, 130), studio.rows.want(50, 130)]);
    expect(carrier.bodies("rows").map(({ offset }) => offset)).toEqual([0, 60, 120]);
    expect([studio.rows.at(125)!.row, studio.rows.indexOf(61), studio.rows.indexOf(199)]).toEqual([125, 61, -1]);
    await studio.rows.refresh(50, 130);
    expect(carrier.bodies("rows").length).toBe(6);
    expect(studio.rows.at(0)!.row).toBe(0);
  });
  test("forgets an answer to a question that was asked otherwise since, and asks again where it was refused", async () => {
    const late: (() => void)[] = [];
    carrier.answers.rows = ({ find }: { find?: string }) => new Promise((done) => late.push(() => done({ total: find ? 1 : 9, rows: [line(find ? 1 : 9)], counts: {} })));
    const old = studio.rows.refresh();
    studio.rows.find = "prize";
    const now = studio.rows.refresh();
    late[1]();
    late[0]();
    await Promise.all([old, now]);
    expect([studio.rows.total, studio.rows.at(0)!.row]).toEqual([1, 1]);
    carrier.answers.rows = () => Promise.reject(new VerbError("busy", "Busy"));
    await studio.rows.want(60, 61);
    await studio.rows.want(60, 61);
    expect(carrier.bodies("rows").filter(({ offset }) => offset === 60).length).toBe(2);
  });
});

describe("a radius that is tried", () => {
  const reply = { comparison: [], seconds: 0.001 };
  test("is kept once, at the newest value", async () => {
    carrier.answers.try_radius = () => reply;
    for (const radius of [0.1, 0.2, 0.3]) studio.trial.try("free", radius);
    await studio.trial.keep();
    expect(carrier.bodies("radius")).toEqual([{ source: "free", radius: 0.3 }]);
    expect(carrier.bodies("try_radius").length).toBe(1);
    expect(studio.trial.open).toBe(false);
  });
  test("stands at the slider at once, and its numbers follow the answer", async () => {
    let answer = (_: unknown) => {};
    carrier.answers.try_radius = () => new Promise((resolve) => (answer = resolve));
    studio.trial.try("free", 0.1);
    studio.trial.try("free", 0.2);
    expect([studio.trial.wanted, studio.trial.radius, studio.trial.reply]).toEqual([0.2, 0.1, null]);
    answer(reply); // of 0.1
    await settle();
    answer(reply); // of 0.2
    await settle();
    expect([studio.trial.wanted, studio.trial.radius, studio.trial.reply]).toEqual([0.2, 0.2, reply]);
  });
  test("is dropped without an edit", async () => {
    carrier.answers.try_radius = () => reply;
    studio.trial.try("free", 0.1);
    await settle();
    expect(studio.trying).toEqual([]);
    await studio.trial.drop();
    expect(carrier.bodies("drop").length).toBe(1);
    expect(carrier.bodies("radius").length).toBe(0);
    expect(studio.trying).toBeNull();
  });
});

describe("a draft", () => {
  const reply = { ok: true, error: null, comparison: [], before: [], seconds: 0.001 };
  test("is previewed before it has a name or a class, and saved only with both", async () => {
    carrier.answers.draft = () => reply;
    studio.draft.start("keywords", { words: "Free entry, prize" });
    await settle();
    expect(carrier.bodies("draft")[0].definition).toMatchObject({ kind: "keywords", words: ["Free entry", "prize"], label: "ham" });
    expect(studio.by).toBe("draft");
    expect(studio.draft.missing).toBe("choose a class");
    await studio.draft.save();
    expect(carrier.bodies("save_function").length).toBe(0);
    studio.draft.label = "spam";
    carrier.answers.save_function = () => ({ change: CHANGE, name: "free_entry_prize" });
    await studio.draft.save();
    expect(carrier.bodies("save_function")[0]).toMatchObject({ name: "free_entry_prize", definition: { label: "spam" } });
    expect(studio.source).toBe("free_entry_prize");
    expect(studio.draft.open).toBe(false);
  });
  test("of exemplars begins with the class that most of them have", async () => {
    carrier.answers.draft = () => reply;
    carrier.answers.suggest_radius = () => ({ radius: 0.25, rows: 9 });
    carrier.answers.row = ({ row }: { row: number }) => ({ row, id: `r${row}`, text: "win cash now", hand: row === 3 ? "spam" : null, label: row === 9 ? "ham" : "spam" });
    await studio.draft.moreLike([3, 5, 9]);
    expect(studio.draft.definition).toEqual({ kind: "like", label: "spam", rows: ["r3", "r5", "r9"], radius: 0.25 });
  });
  test("of example rows takes those that are selected, and begins empty where none are", async () => {
    carrier.answers.draft = () => reply;
    carrier.answers.suggest_radius = () => ({ radius: 0.25, rows: 9 });
    carrier.answers.row = ({ row }: { row: number }) => ({ row, id: `r${row}`, text: "win cash now", hand: null, label: "spam" });
    studio.draft.begin("like");
    expect(studio.draft.rows).toEqual([]);
    studio.select(Uint32Array.of(1, 2));
    studio.draft.begin("like");
    await settle();
    expect(studio.draft.rows.map(({ id }) => id)).toEqual(["r1", "r2"]);
  });
  test("whose code cannot run is not saved", async () => {
    carrier.answers.draft = () => ({ ...reply, ok: false, error: { message: "bad pattern", line: null } });
    studio.draft.start("regex");
    Object.assign(studio.draft, { pattern: "(", label: "spam", name: "broken" });
    studio.draft.preview();
    await settle();
    expect(studio.draft.missing).toBe("it cannot be run");
  });
});

describe("the queue", () => {
  const rows = [1, 2].map((row) => ({ row, id: `${row}`, text: "", label: "ham", reason: "near", purpose: "teach", chosen: `how-${row}` }));
  beforeEach(async () => {
    carrier.answers.next = () => ({ rows });
    await studio.queue.fill();
  });
  test("labels with how the row was chosen, moves on, and then tells the model's answer", async () => {
    await studio.queue.answer("spam");
    expect(carrier.bodies("label")).toEqual([{ row: 1, label: "spam", chosen: "how-1" }]);
    expect(studio.queue.current!.row).toBe(2);
    expect(studio.queue.answered[0]).toMatchObject({ label: "spam", model: "ham", flipped: 3 });
  });
  test("skips without a label, and asks for more at its end", async () => {
    studio.queue.skip();
    studio.queue.skip();
    await settle();
    expect(carrier.bodies("label").length).toBe(0);
    expect(carrier.bodies("next").map(({ without }) => without)).toEqual([[], [1, 2]]);
  });
  test("does not ask again about what was answered, as labels to check would be, unless it is taken back", async () => {
    await studio.queue.answer("spam");
    await studio.queue.fill("check");
    await studio.queue.undo();
    await studio.queue.fill("check");
    expect(carrier.bodies("next").map(({ without }) => without)).toEqual([[], [1], []]);
  });
  test("takes the last answer back and shows its row again", async () => {
    await studio.queue.answer("spam");
    await studio.queue.undo();
    expect(carrier.bodies("undo").length).toBe(1);
    expect(studio.queue.current!.row).toBe(1);
    expect(studio.queue.answered).toEqual([]);
  });
});

describe("a selection", () => {
  test("of few rows is told by number, of many in bits, and rows are asked of it by name", async () => {
    studio.select(Uint32Array.of(1, 2));
    studio.state = { ...STATE, rows: { total: 16_000, train: 16_000, dev: 0 } };
    studio.select(Uint32Array.from({ length: 8000 }, (_, i) => 2 * i));
    const [few, many] = carrier.bodies("select");
    expect(few).toEqual({ rows: [1, 2] });
    expect(many).toEqual({ bits: btoa("U".repeat(2000)) });
    expect(studio.rows.query.selection).toBe("mine");
  });
  test("is told again when a lost connection opens, for the server has forgotten it", async () => {
    studio.select(Uint32Array.of(1));
    carrier.connection("lost");
    carrier.connection("open");
    await settle();
    expect(carrier.bodies("select")).toEqual([{ rows: [1] }, { rows: [1] }]);
  });
});
