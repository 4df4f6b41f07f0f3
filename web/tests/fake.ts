import type { Change, State, Verbs } from "../src/protocol";
import type { Connection, Transport } from "../src/transport/transport";

export const STATE = {
  project: { name: "made up", folder: ".", model: "fusion", kind: "text", columns: ["text"], text: "text", sequences: false },
  classes: ["ham", "spam"], positive: "spam", rows: { total: 3, train: 2, dev: 1 }, version: 1, number: 4, comparison: [], lends: "",
  labelled: { total: 0, random: 0, chosen: 0, unknown: 0 }, sources: 1, problem: "", notes: [], failures: [], findings: [], examined: true,
  code: { error: null }, undo: null, redo: null, meanings: {}, picture: { kind: "pca", state: "off", note: "", of: "", regions: [] },
} as unknown as State;

export const CHANGE: Change = { version: 2, what: "an edit", source: null, flipped: 3, before: {}, after: {}, coverage: null, seconds: 0.01, problem: "", unheard: [], heard: [], failures: [] };

/** Answers every verb at once from a table, and keeps what was asked. */
export class FakeTransport implements Transport {
  asked: { verb: string; body: Record<string, unknown> }[] = [];
  answers: Record<string, (body: never) => unknown> = {};
  private handlers: Record<string, (message: never) => void> = {};
  private connect: (connection: Connection) => void = () => {};

  async call<V extends keyof Verbs>(verb: V, body: Verbs[V][0]): Promise<Verbs[V][1]> {
    this.asked.push({ verb, body: body as Record<string, unknown> });
    const empty = { head: {}, bytes: new Uint8Array(0) };
    const usual: Record<string, unknown> = { state: STATE, positions: empty, colour: empty, all_rows: empty };
    const answer = this.answers[verb];
    return (answer ? await answer(body as never) : (usual[verb] ?? CHANGE)) as Verbs[V][1];
  }
  on(type: string, handler: (message: never) => void): void {
    this.handlers[type] = handler;
  }
  onConnection(handler: (connection: Connection) => void): void {
    this.connect = handler;
  }
  image = () => null;
  file = () => null;
  close(): void {}
  push(type: string, message: unknown): void {
    this.handlers[type](message as never);
  }
  connection(connection: Connection): void {
    this.connect(connection);
  }
  bodies(verb: string): Record<string, unknown>[] {
    return this.asked.filter((asked) => asked.verb === verb).map(({ body }) => body);
  }
}
