import { describe, expect, test } from "vitest";
import { NotebookTransport } from "../src/transport/notebook";
import { Exchange, VerbError } from "../src/transport/transport";

type Sent = { id: number; verb: string; body: unknown };
function exchange() {
  const sent: Sent[] = [];
  return { sent, talk: new Exchange((message) => sent.push(message)) };
}

describe("an exchange", () => {
  test("gives each reply to its own call, in whatever order they come", async () => {
    const { sent, talk } = exchange();
    const [first, second] = [talk.call("state", {}), talk.call("rows", {})];
    talk.receive({ id: sent[1].id, reply: { total: 2 } });
    talk.receive({ id: sent[0].id, reply: { version: 1 } });
    expect(await first).toEqual({ version: 1 });
    expect(await second).toEqual({ total: 2 });
  });
  test("refuses in the server's words", async () => {
    const { sent, talk } = exchange();
    const call = talk.call("radius", {});
    talk.receive({ id: sent[0].id, error: { message: "No such source.", kind: "ParameterError" } });
    await expect(call).rejects.toMatchObject({ message: "No such source.", kind: "ParameterError" });
  });
  test("hands bytes over with their head", async () => {
    const { sent, talk } = exchange();
    const call = talk.call("positions", {});
    talk.receive({ id: sent[0].id, reply: { kind: "pca" } }, Uint8Array.of(1));
    expect(await call).toEqual({ head: { kind: "pca" }, bytes: Uint8Array.of(1) });
  });
  test("hands pushed messages to those who asked for their type", () => {
    const { talk } = exchange();
    const heard: unknown[] = [];
    talk.on("job", (message) => heard.push(message));
    talk.receive({ id: 0, type: "job", done: 1 });
    talk.receive({ id: 0, type: "other" });
    talk.receive({ id: 99, reply: {} });
    expect(heard).toEqual([{ id: 0, type: "job", done: 1 }]);
  });
  test("after a lost connection says again what may be said twice, and refuses the rest", async () => {
    const { sent, talk } = exchange();
    void talk.call("label", { row: 1 });
    const undo = talk.call("undo", {});
    talk.again();
    expect(sent.map(({ verb }) => verb)).toEqual(["label", "undo", "label"]);
    expect(sent[2].id).toBe(sent[0].id);
    await expect(undo).rejects.toBeInstanceOf(VerbError);
  });
});

test("a notebook carries the same messages, bytes as the first buffer", async () => {
  let hear: (content: Record<string, unknown>, buffers: DataView[]) => void = () => {};
  const sent: Sent[] = [];
  const transport = new NotebookTransport({ send: (message) => sent.push(message as Sent), on: (_, handler) => (hear = handler), off: () => {} });
  const call = transport.call("positions", {});
  hear({ id: sent[0].id, reply: { kind: "umap", total: 1 } }, [new DataView(Uint8Array.of(7, 8).buffer, 1)]);
  expect(await call).toEqual({ head: { kind: "umap", total: 1 }, bytes: Uint8Array.of(8) });
});
