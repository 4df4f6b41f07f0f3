// What page and server say to each other: the server's own verbs. `make types-web` writes schema.ts from them.
//
// Everything is a verb: call(verb, body) -> reply. Three ways carry it, all with the same table of verbs:
//   page       WebSocket /api/live: text frame {"id": n, "verb": "rows", "body": {...}} from the page; the reply is
//              {"id": n, "reply": {...}} or {"id": n, "error": {"message": "...", "kind": "ParameterError"}} as text,
//              or, where bytes belong to it, a binary frame (frames.ts) whose JSON head has the same fields
//   scripts    POST /api/VERB with the body as JSON (an OpenAPI document at GET /api/openapi.json)
//   notebook   the same messages as anywidget custom messages
// Pushed messages have id 0 and a "type". Rows are numbered 0..rows.total-1: train rows first, then dev rows.
import type { components, operations } from "./schema";

type Parts = components["schemas"];
export interface Framed<Head = Parts["Head"]> { head: Head; bytes: Uint8Array }
type Asked<V extends keyof operations> = operations[V]["requestBody"]["content"]["application/json"];
type Told<V extends keyof operations> = operations[V]["responses"][200]["content"] extends { "application/json": infer Reply } ? Reply : Framed;

/** What each verb takes and gives. Bytes: "positions" float32 x0, y0, x1, … in [-1, 1]; "all_rows" uint32 row numbers; "colour" marks. */
export type Verbs = { [V in keyof operations]: [Asked<V>, Told<V>] };

// Marks are two bytes a row, a class (255: none) and, by what the map is coloured by:
//   label, uncertain   how sure, how unsure its label is, 0..255
//   source             0 none, 1 own vote, 2 lent, 3 lent before and not now (while a radius is dragged)
//   hand               0 no label, 1 the model held out agrees, 2 it does not, 3 not known
//   novote             0 nobody votes, 1 only lent votes, 2 own votes
//   draft              0 none, 1 votes, 2 its label would flip
// Pushed marks are sparse (uint32 row × n, then 2 bytes × n) or of all rows.
export interface Pushed {
  change: { change: Change; state: State };
  picture: { picture: Picture };
  job: Job;
  functions: { error: CodeError | null; failures: State["failures"] };
  findings: { findings: Finding[] }; // looked for when nothing is being edited
  notes: { meanings: State["meanings"] };
  marks: Framed<{ by: ColourBy; source: string | null; version: number; request: number; sparse: boolean; n: number }>;
}
export interface Job { job: number; what: string; done: number; total: number | null; state: "running" | "done" | "failed" | "cancelled"; message: string }

export type ColourBy = Asked<"colour">["by"];
export type RowQuery = Asked<"rows">;
export type SourceQuery = Asked<"sources">;
export type Filter = NonNullable<RowQuery["filter"]>;
export type Purpose = NonNullable<Asked<"next">["purpose"]>;
export type Interval = Parts["Interval"] | null;
export type Setting = Parts["SourceLine"]["radius"]; // a radius; null lends nothing
export type Score = Parts["Score"];
export type State = Parts["State"];
export type Picture = Parts["Picture"];
export type Finding = Parts["Finding"];
export type CodeError = Parts["CodeError"];
export type SourceRow = Parts["SourceLine"];
export type SourceDetail = Parts["Source"];
export type Trial = Parts["Trial"];
export type Change = Parts["Change"];
export type RowLine = Parts["Row"];
export type WholeRow = Parts["WholeRow"];
export type Queued = Parts["Queued"];
export type Why = Parts["Why"];
export type Draft = Parts["Draft"];
export type Definition = NonNullable<SourceDetail["definition"]>;
export type Suggested = Omit<Parts["FunctionSuggestion"], "definition"> & { definition: Definition };
export type Code = Parts["File"];
export type Edit = Parts["Edit"];
