// What page and server say to each other. The server's verbs have the same names and shapes in
// src/epoxy/studio/verbs.py; a test compares the two.
//
// Everything is a verb: call(verb, body) -> reply. Three ways carry it, all with the same table of verbs:
//   page       WebSocket /api/live: text frame {"id": n, "verb": "rows", "body": {...}} from the page;
//              the reply is {"id": n, "reply": {...}} or {"id": n, "error": {"message": "...", "kind": "ParameterError"}} as text,
//              or, where bytes belong to it, a binary frame (below) whose JSON head has the same fields
//   scripts    POST /api/VERB with the body as JSON (an OpenAPI document at GET /api/openapi.json)
//   notebook   the same messages as anywidget custom messages
// Binary frame: uint32 length of head, head (UTF-8 JSON), zero bytes up to a multiple of 8, then the bytes.
// Pushed messages have id 0 and a "type": "change" | "marks" | "picture" | "job" | "functions".
// Rows are numbered 0..rows.total-1: train rows first, then dev rows.

export type Interval = { value: number; low: number; high: number; n: number } | null;
export type Setting = number | null | "auto"; // a radius; null lends nothing

export interface State {            // verb "state" {}
  project: { name: string; folder: string; model: string; kind: "text" | "image" | "plain"; columns: string[]; text: string | null; sequences: boolean };
  classes: string[];
  positive: string | null;
  rows: { total: number; train: number; dev: number };
  version: number;                  // counts edits of this server
  number: number;                   // of the last edit in the project's log, for permalinks
  comparison: { name: "majority" | "epoxy" | string; title: string; inUse: boolean; accuracy: Interval; f1: number | null }[];
  scoring: { basis: string; why: string; rows: number }; // what scores rest on, in words
  covered: { own: number; after: number };   // shares of train rows with a vote
  lends: string;                    // what a lent vote counts beside an own one, in words; "" where the same
  uncertain: number;                // train rows whose best class has p < 0.8
  labelled: { total: number; random: number; chosen: number; unknown: number };
  balance: Record<string, number> | null;
  sources: number;
  problem: string;                  // why there are no labels now; ""
  notes: string[];
  failures: { name: string; message: string; line: number | null }[];
  findings: { text: string; source: string | null; kind: string }[];
  examined: boolean; // whether the doctor has looked at the session as it is
  code: { error: { message: string; line: number | null } | null };
  undo: string | null; redo: string | null;
  seconds: number;                  // of the last edit, whole
  picture: Picture;
}

export interface Picture {          // verb "picture" {}; pushed as {type:"picture", picture}
  kind: "pca" | "umap" | "none";    // the one "positions" gives now
  state: "ready" | "working" | "failed" | "off"; // of the better picture
  of: string;                       // of how many rows UMAP is, where it is not of all
  note: string;                     // "UMAP in 12 s", why it failed
  regions: { x: number; y: number; words: string; rows: number }[];
}
// verb "positions" {} -> bytes: float32 x0,y0,x1,y1,… in [-1, 1]; head {kind, total}

export type ColourBy = "label" | "source" | "uncertain" | "hand" | "novote" | "draft";
// verb "colour" {by: ColourBy, source?: string} -> bytes: 2 per row [first, second]; this connection is
//   pushed the marks of this mode from now on. head {by, source, version}
//   label:     first = class (255: no label), second = confidence 0..255 (p of the label)
//   source:    first = class voted (255 none), second = 0 none, 1 own, 2 lent, 3 lent before and not now (while a radius is dragged)
//   uncertain: first = class, second = uncertainty 0..255
//   hand:      first = hand label's class (255 none), second = 0 no label, 1 the model held out agrees, 2 it does not, 3 not known
//   novote:    first = class, second = 0 nobody votes, 1 only lent votes, 2 own votes
//   draft:     first = class the draft votes (255), second = 0 none, 1 votes, 2 its label would flip
// pushed: binary {type:"marks", by, source, version, request, sparse: boolean, n}; bytes: sparse: uint32 row × n then 2 bytes × n; else 2 bytes × total

export interface SourceRow {
  name: string; classes: string[]; on: boolean;
  heard: boolean;                          // false: on, and not heard, because vectors contradict it
  radius: Setting; reach: number | null; // the radius in use where it has a number
  kind: "keywords" | "regex" | "like" | "python" | "other"; line: number | null;
  coverage: number; extended: number;      // shares of train rows
  own: Interval; lent: Interval;           // right on rows labelled by hand
  conflicts: number; weight: number | null; // the model's weight, or learned accuracy, if it has one
  finding: string | null; failure: string | null;
}
// verb "sources" {find?: string, sort?: "file"|"name"|"coverage"|"extended"|"own"|"lent"|"conflicts"|"radius", descending?: boolean, offset?: number, limit?: number}
//   -> {total: number, sources: SourceRow[]}
// verb "source" {name} -> SourceDetail
export interface SourceDetail extends SourceRow {
  definition: Definition | null;           // where a form can show it
  code: string | null;                     // its lines of lfs.py
  adds: number | null;                     // what an own vote adds to the log-odds of its class, where the model can tell
  curve: { radius: number[]; covered: number[]; right: (number | null)[]; low: (number | null)[]; high: (number | null)[]; n: number[] } | null;
}
export type Definition =
  | { kind: "keywords"; label: string; words: string[]; column: string; whole_words: boolean; ignore_case: boolean }
  | { kind: "regex"; label: string; pattern: string; column: string; ignore_case: boolean }
  | { kind: "like"; label: string; rows: string[]; radius: number }
  | { kind: "python"; code: string };

// verb "try_radius" {source, radius: Setting, request: number} -> Trial; nothing is kept; marks of the trial are pushed with that request
// verb "drop" {} -> {}: forget the trial, marks of the real state are pushed
export interface Trial {
  request: number; what: string; seconds: number;
  flipped: number; comparison: State["comparison"];
  source: { extended: [number, number]; lent: [Interval, Interval]; lentRows: [number, number] };
  lost: { row: number; text: string; distance: number; hand: string | null }[]; // up to 5 rows no longer lent to
}
// verbs that edit; each -> Change, and every page is pushed {type:"change", change, state}
//   "radius" {source, radius} | "switch" {source, on} | "label" {row, label: string|null, chosen: string|null} | "undo" {} | "redo" {}
export interface Change { version: number; what: string; source: string | null; flipped: number; before: Record<string, number>; after: Record<string, number>; coverage: [number, number] | null; seconds: number; problem: string; unheard: string[]; heard: string[]; by: string }

export interface RowLine { row: number; id: string; split: "train" | "dev"; text: string; label: string | null; p: number | null; hand: string | null; chosen: string | null; votes: { source: string; vote: string; own: boolean }[]; image: boolean }
export type Filter = "all" | "uncertain" | "conflict" | "novote" | "wrong" | "hand" | "near" | "voted" | "flipped";
// verb "rows" {find?: string, like?: number, filter?: Filter, source?: string, selection?: number[]|"mine", sort?: "unsure"|"sure"|"file"|"like"|"distance", offset?: number, limit?: number}
//   -> {total: number, rows: RowLine[], counts: Record<Filter, number>}   (near: within 5 % of `source`'s radius)
// verb "all_rows" (same query) -> bytes: uint32 row numbers of everything that matches: a selection for the map
// verb "row" {row} -> RowLine & {columns: Record<string, string>}
// verb "why" {row} -> Why
export interface Why {
  row: number; id: string; label: string; against: string; probabilities: Record<string, number>; truth: string | null;
  said: string[]; answers: { name: string; label: string | null; p: number | null; inUse: boolean }[]; // majority, epoxy, the model
  start: number; log_odds: number; additive: boolean;
  voices: { source: string; vote: string | null; origin: string; lender: number | null; lenderText: string | null; distance: number | null; weight: number; detail: string }[];
  experts: { name: string; weight: number }[];     // sums of voices by expert, prior first; [] where the model has none
  text: string;                                    // the explanation as `epoxy explain` prints it
}

// drafts: nothing is kept until "save_function"
// verb "draft" {definition: Definition, name?: string, replaces?: string} -> Draft
export interface Draft {
  ok: boolean; error: { message: string; line: number | null } | null;
  rows: number; coverage: number; extended: number;
  right: Interval; conflicts: number; overlaps: number;
  flips: { row: number; text: string; from: string | null; to: string | null }[]; flipped: number; // up to 8 shown
  unheard: boolean;                        // the model would not hear it, because vectors contradict it
  comparison: State["comparison"]; before: State["comparison"]; seconds: number;
  examples: { row: number; text: string; hand: string | null }[];  // up to 8 rows it votes on
  code: string;                                    // what saving would write
}
// verb "save_function" {definition, name, replaces?: string} -> {change: Change | null, name: string}
// verb "suggest" {n?: number, label?: string, rows?: number[], conflict?: boolean} -> {suggestions: Suggested[]}  found on one half of the rows, judged on the other
export interface Suggested {
  name: string; definition: Definition; label: string; rows: number; coverage: number;
  precision: { value: number; low: number; high: number; confidence: number; basis: string; hand: number; right: number; rows: number };
  adds: number; against: number; reason: string;   // adds: rows nobody votes on, nor a suggestion before it
  right: SuggestedRow[]; wrong: SuggestedRow[];
}
export interface SuggestedRow { row: number; id: string; text: string; label: string; by: "hand" | "model" }
// verb "suggest_radius" {rows: number[]} -> {radius: number, rows: number}  a start for "more like these"
// verb "code" {} -> {text, hash, error, functions: {name, line, kind}[]}
// verb "save_code" {text, hash} -> {hash, error, change: Change | null}   error kind "Conflict" {theirs, hash} when the file changed since
// pushed {type:"functions", error, failures} after every save, ours or another editor's

// verb "next" {n?: number, purpose?: "mix"|"teach"|"score"|"cover"|"conflict"|"check", without?: number[]} -> {rows: (RowLine & {reason: string; purpose: string; chosen: string})[]}
// verb "history" {} -> {edits: {number: number; at: string; who: string; what: string; mine: boolean; undone: boolean; scores: Record<string, number> | null; flipped: number | null}[]}
// verb "tune" {} -> {job: number}; pushed {type:"job", job, what, done: number, total: number|null, state: "running"|"done"|"failed"|"cancelled", message}
// verb "cancel" {job} -> {}
// verb "export" {kind: "csv"|"jsonl"|"parquet"} -> {path: string, url: string}; GET url downloads the file
// GET /api/image/ROW?size=64 -> the row's picture
// verb "select" {rows?: number[], bits?: string} -> {}: what this page has selected, readable from Python in a notebook
// (widget.selection); many are told as one bit a row, lowest first, in base64, and named as "mine" from then on

// The same table for the compiler: what each verb takes and gives. Replies that carry bytes are `Framed`.
export interface Framed<Head = Record<string, unknown>> { head: Head; bytes: Uint8Array }
export interface RowQuery { find?: string; like?: number; filter?: Filter; source?: string; selection?: number[] | "mine"; sort?: "unsure" | "sure" | "file" | "like" | "distance"; offset?: number; limit?: number }
export interface SourceQuery { find?: string; sort?: "file" | "name" | "coverage" | "extended" | "own" | "lent" | "conflicts" | "radius"; descending?: boolean; offset?: number; limit?: number }
export interface FoundRows { total: number; rows: RowLine[]; counts: Record<Filter, number> }
export type Purpose = "mix" | "teach" | "score" | "cover" | "conflict" | "check";
export type Queued = RowLine & { reason: string; purpose: string; chosen: string };
export interface Edit { number: number; at: string; who: string; what: string; mine: boolean; undone: boolean; scores: Record<string, number> | null; flipped: number | null }
export interface CodeError { message: string; line: number | null }
export interface Code { text: string; hash: string; error: CodeError | null; functions: { name: string; line: number; kind: string }[] }

export interface Verbs {
  state: [Record<string, never>, State];
  picture: [Record<string, never>, Picture];
  positions: [Record<string, never>, Framed<{ kind: string; total: number }>];
  colour: [{ by: ColourBy; source?: string }, Framed<{ by: ColourBy; source: string | null; version: number }>];
  sources: [SourceQuery, { total: number; sources: SourceRow[] }];
  source: [{ name: string }, SourceDetail];
  try_radius: [{ source: string; radius: Setting; request: number }, Trial];
  drop: [Record<string, never>, Record<string, never>];
  radius: [{ source: string; radius: Setting }, Change];
  switch: [{ source: string; on: boolean }, Change];
  label: [{ row: number; label: string | null; chosen: string | null }, Change];
  undo: [Record<string, never>, Change];
  redo: [Record<string, never>, Change];
  rows: [RowQuery, FoundRows];
  all_rows: [RowQuery, Framed];
  row: [{ row: number }, RowLine & { columns: Record<string, string> }];
  why: [{ row: number }, Why];
  draft: [{ definition: Definition; name?: string; replaces?: string }, Draft];
  save_function: [{ definition: Definition; name: string; replaces?: string }, { change: Change | null; name: string }];
  suggest: [{ n?: number; label?: string; rows?: number[] | "mine"; conflict?: boolean }, { suggestions: Suggested[] }];
  suggest_radius: [{ rows: number[] }, { radius: number; rows: number }];
  code: [Record<string, never>, Code];
  save_code: [{ text: string; hash: string }, { hash: string; error: CodeError | null; change: Change | null }];
  next: [{ n?: number; purpose?: Purpose; without?: number[] }, { rows: Queued[] }];
  history: [Record<string, never>, { edits: Edit[] }];
  tune: [Record<string, never>, { job: number }];
  cancel: [{ job: number }, Record<string, never>];
  export: [{ kind: "csv" | "jsonl" | "parquet" }, { path: string; url: string }];
  select: [{ rows?: number[]; bits?: string }, Record<string, never>];
}
export interface Job { job: number; what: string; done: number; total: number | null; state: "running" | "done" | "failed" | "cancelled"; message: string }
export interface Pushed {
  change: { change: Change; state: State };
  picture: { picture: Picture };
  job: Job;
  functions: { error: CodeError | null; failures: State["failures"] };
  findings: { findings: State["findings"] }; // the doctor looks when nothing is being edited
  marks: Framed<{ by: ColourBy; source: string | null; version: number; request: number; sparse: boolean; n: number }>;
}
