import { getContext, setContext } from "svelte";
import { readPlace, writePlace } from "../logic/link";
import { asBits } from "../logic/selection";
import { applyMarks } from "../map/marks";
import type { Theme } from "../map/palette";
import { Scene } from "../map/scene";
import type { Change, Code, ColourBy, Finding, Job, Pushed, Setting, State, Verbs, WholeRow } from "../protocol";
import { asFloat32, asUint32 } from "../transport/frames";
import { VerbError, type Connection, type Transport } from "../transport/transport";
import { FunctionDraft } from "./draft.svelte";
import { Queue } from "./queue.svelte";
import { RowList } from "./rows.svelte";
import { RadiusTrial } from "./trial.svelte";

export type Tab = "sources" | "rows" | "why" | "source" | "draft" | "label" | "code" | "history";
type Edit = "radius" | "switch" | "label" | "label_rows" | "undo" | "redo";
const FEW = 1000; // rows of a selection that are told by number

export interface Line { from: number; to: number; vote: string | null }

/** What the page shows and what it knows; every part reads it, edits go through its verbs. */
export class Studio {
  state = $state.raw<State | null>(null);
  connection = $state<Connection>("opening");
  message = $state("");
  tab = $state<Tab>("rows");
  by = $state<ColourBy>("label");
  chosenBy = $state<ColourBy>("label"); // the colours a person chose last; tabs may show others meanwhile
  source = $state<string | null>(null);
  votes = $state.raw<string[]>([]); // classes the source votes
  row = $state<number | null>(null);
  selection = $state.raw<Uint32Array | null>(null);
  hand = $state.raw(new Uint32Array(0));
  labelled = $state<string | null>(null); // what the selection was just labelled as
  lines = $state.raw<Line[]>([]);
  theme = $state<Theme>("light");
  keysShown = $state(false);
  findAsked = $state(0);
  searchAsked = $state(0);
  findSet = $state(0); // rises when words to find were given from elsewhere
  lasso = $state(false);
  last = $state.raw<Change | null>(null);
  before = $state.raw<State["comparison"] | null>(null);
  trying = $state.raw<State["comparison"] | null>(null); // scores of a trial or a draft, while it lasts
  timing = $state<{ label: number; screen: number } | null>(null);
  job = $state.raw<Job | null>(null);
  version = $state(0); // rises with every change: lists ask again
  codeVersion = $state(0);
  unsaved = $state.raw<{ text: string; of: Code } | null>(null); // what the editor holds, and the file it began from
  codeLine = $state<number | null>(null); // a line the editor is asked to show
  linkedAt = $state<number | null>(null); // the edit a link was made at, where another is current
  readonly rows = new RowList(this);
  readonly trial = new RadiusTrial(this);
  readonly draft = new FunctionDraft(this);
  readonly queue = new Queue(this);
  scene: Scene | null = null;
  painted: Promise<number> = Promise.resolve(0);
  private positions: Float32Array | null = null;
  private marks: Uint8Array | null = null;
  private shown: { by: ColourBy; source: string | null } = { by: "label", source: null };
  private texts = new Map<number, WholeRow>();

  constructor(readonly transport: Transport, readonly keysOn: EventTarget, private linked: boolean) {
    const place = linked ? readPlace(location.hash) : {};
    this.tab = (place.tab as Tab) ?? "rows";
    this.source = place.source ?? null;
    this.row = place.row ?? null;
    this.chosenBy = place.colour === "source" && !place.source ? "label" : (place.colour ?? "label");
    this.by = place.colour ? this.chosenBy : this.fitting(this.tab);
    this.linkedAt = place.at ?? null;
    this.rows.filter = place.filter ?? "all";
    this.rows.find = place.find ?? "";
    if (place.like !== undefined) this.rows.like = { row: place.like, words: "…" };
    transport.on("change", (pushed) => this.changed(pushed));
    transport.on("marks", (frame) => this.marked(frame));
    transport.on("picture", ({ picture }) => this.pictured(picture));
    transport.on("job", (job) => (this.job = job));
    transport.on("findings", ({ findings }) => {
      if (this.state) this.state = { ...this.state, findings, examined: true };
    });
    transport.on("notes", ({ meanings }) => {
      if (this.state) this.state = { ...this.state, meanings };
    });
    transport.on("functions", ({ error, failures }) => {
      if (this.state) this.state = { ...this.state, code: { error }, failures };
      this.codeVersion++;
    });
    transport.onConnection((connection) => {
      const again = this.connection === "lost" && connection === "open";
      this.connection = connection;
      if (again) void this.load();
    });
    void this.load();
  }

  get classes(): string[] {
    return this.state?.classes ?? [];
  }

  /** Ask, and show a refusal in words; undefined where it was refused. */
  async call<V extends keyof Verbs>(verb: V, body: Verbs[V][0]): Promise<Verbs[V][1] | undefined> {
    try {
      return await this.transport.call(verb, body);
    } catch (error) {
      if (!(error instanceof VerbError)) throw error;
      this.message = error.message;
      return undefined;
    }
  }

  /** One edit, timed from the gesture to the finished frame that shows it. */
  async edit<V extends Edit>(verb: V, body: Verbs[V][0]): Promise<Change | undefined> {
    const begun = performance.now();
    const change = (await this.call(verb, body)) as Change | undefined;
    if (change) {
      this.message = "";
      void this.measured(begun, change.seconds);
    }
    return change;
  }

  async measured(begun: number, seconds: number): Promise<void> {
    let end = await this.painted;
    if (end < begun && this.scene) end = await this.scene.painted();
    if (end >= begun) this.timing = { label: seconds * 1000, screen: end - begun };
  }

  label(row: number, label: string | null, chosen: string | null = null): Promise<Change | undefined> {
    return this.edit("label", { row, label, chosen });
  }

  /** All selected rows at once; one edit, and one undo. */
  async labelSelection(label: string | null): Promise<void> {
    if (await this.edit("label_rows", { rows: "mine", label })) this.labelled = label ?? "";
  }

  /** Do what a finding asks for. */
  cure(cure: Finding["cures"][number]): void {
    if (cure.verb === "switch") void this.edit("switch", { source: cure.source!, on: cure.value === true });
    else if (cure.verb === "radius") void this.edit("radius", { source: cure.source!, radius: cure.value as Setting });
    else if (cure.tab === "draft") this.draft.begin(this.state!.project.text === null ? "like" : "keywords");
    else if (cure.tab === "label") {
      this.tab = "label";
      void this.queue.fill("check");
    } else this.openSource(cure.source);
  }

  /** The colours that fit a tab: while one labels not the answer of the model, and of a source only beside it. */
  private fitting(tab: Tab): ColourBy {
    if (tab === "label") return "hand";
    if (tab === "source" && this.source) return "source";
    if (this.by === "source" && ["rows", "why", "sources"].includes(tab)) return "source";
    return this.chosenBy === "label" && this.state?.problem ? "hand" : this.chosenBy;
  }

  /** Another tab was opened, or there are labels where there were none. */
  follow(tab: Tab): void {
    const by = this.fitting(tab);
    if (this.by !== "draft" && by !== this.by) void this.colour(by);
  }

  /** A person chooses colours. */
  choose(by: ColourBy): void {
    if (by !== "draft") this.chosenBy = by;
    void this.colour(by);
  }

  /** Colour the map another way; marks and mode change in one frame. */
  async colour(by: ColourBy, source: string | null = this.source): Promise<void> {
    if (by === "source" && !source) by = "label";
    this.by = by;
    const asked = by === "source" ? { by, source: source! } : { by };
    const reply = await this.call("colour", asked);
    if (!reply || this.by !== by) return;
    this.shown = { by, source: by === "source" ? source : null };
    this.marks = reply.bytes;
    this.show();
  }

  openSource(name: string | null, tab: Tab = "source"): void {
    this.source = name;
    if (!name) return;
    this.tab = tab;
    void this.colour("source", name);
    this.votes = [];
  }

  openRow(row: number, tab?: Tab): void {
    this.row = row;
    if (tab) this.tab = tab;
  }

  select(rows: Uint32Array | null): void {
    this.selection = rows && rows.length ? rows : null;
    this.labelled = null;
    this.tellSelection();
  }

  private tellSelection(): void {
    const rows = this.selection ?? new Uint32Array(0);
    void this.call("select", rows.length > FEW ? { bits: asBits(rows, this.state!.rows.total) } : { rows: Array.from(rows) });
  }

  /** A row in words: its text, or its name where it is a picture without one. */
  words(line: { text: string; id: string; image?: boolean }): string {
    return (line.image && !this.state?.project.text ? "" : line.text) || `row ${line.id}`;
  }

  /** A row's line and columns, kept until something changes. */
  async rowText(row: number): Promise<WholeRow | undefined> {
    const known = this.texts.get(row);
    if (known) return known;
    const line = await this.call("row", { row });
    if (line) this.texts.set(row, line);
    return line;
  }

  attach(canvas: HTMLCanvasElement): Scene {
    this.scene = new Scene(canvas, this.classes.length, this.state?.rows.total ?? 0);
    this.scene.theme = this.theme;
    if (this.positions) this.scene.place(this.positions);
    if (this.marks) this.show();
    return this.scene;
  }

  /** The link to what is looked at now. */
  link(): string {
    return writePlace({
      tab: this.tab === "rows" ? undefined : this.tab, colour: this.by === this.fitting(this.tab) || this.by === "draft" ? undefined : this.by,
      source: this.source ?? undefined, row: this.row ?? undefined,
      filter: this.rows.filter === "all" ? undefined : this.rows.filter, find: this.rows.find || undefined,
      like: this.rows.like?.row, at: this.state?.number,
    });
  }

  remember(): void {
    if (this.linked) history.replaceState(null, "", this.link() || location.pathname);
  }

  async load(): Promise<void> {
    const [state, positions] = await Promise.all([this.call("state", {}), this.call("positions", {})]);
    if (!state) return;
    this.state = state;
    this.by = this.by === "label" ? this.fitting(this.tab) : this.by;
    if (this.selection) this.tellSelection(); // a connection that opens again knows nothing of it
    this.version++;
    if (this.linkedAt === state.number) this.linkedAt = null;
    if (positions) this.place(asFloat32(positions.bytes));
    await Promise.all([this.arrive(state), this.loadHand()]);
  }

  /** What a link named is looked at where it is there; the rest is left out, and said. */
  private async arrive(state: State): Promise<void> {
    const missing: string[] = [];
    for (const row of [this.row, this.rows.like?.row]) if (row != null && row >= state.rows.total) missing.push(`row ${row}`);
    if (this.row !== null && this.row >= state.rows.total) this.row = null;
    const { like } = this.rows;
    if (like) {
      const line = like.row < state.rows.total ? await this.rowText(like.row) : undefined;
      this.rows.like = line ? { row: like.row, words: this.words(line) } : null;
    }
    const { source } = this;
    if (!(await this.keepSource())) missing.push(`source ${source}`);
    if (missing.length) this.message = `The link names what is not here: ${missing.join(", ")}.`;
    await this.colour(this.by);
  }

  /** Look at no source that is gone; whether the one that is looked at is still there. */
  private async keepSource(): Promise<boolean> {
    const { source } = this;
    if (source === null) return true;
    try {
      await this.transport.call("source", { name: source });
      return true;
    } catch (error) {
      if (!(error instanceof VerbError)) throw error;
      if (this.source !== source) return true;
      this.source = null;
      if (this.tab === "source") this.tab = "rows";
      if (this.by === "source") await this.colour("label");
      return false;
    }
  }

  private async loadHand(): Promise<void> {
    const reply = await this.call("all_rows", { filter: "hand" });
    if (reply) this.hand = asUint32(reply.bytes).slice();
  }

  private place(positions: Float32Array): void {
    this.positions = positions.slice();
    this.scene?.place(this.positions);
  }

  private show(): void {
    if (!this.scene || !this.marks) return;
    this.scene.by = this.shown.by;
    this.painted = this.scene.recolour(this.marks);
  }

  private marked(frame: Pushed["marks"]): void {
    const { by, source } = frame.head;
    if (by !== this.shown.by || (source ?? null) !== this.shown.source || !this.scene) return;
    if (applyMarks(this.scene.marks, frame)) this.painted = this.scene.recolour(undefined, frame.head.request > 0);
    else void this.colour(this.by);
  }

  private changed({ change, state }: Pushed["change"]): void {
    const rows = this.state?.rows.total;
    const labelled = this.state?.labelled.total;
    this.before = this.state?.comparison ?? null;
    const problem = this.state?.problem;
    this.state = state;
    if (!problem !== !state.problem) this.follow(this.tab);
    this.last = change;
    this.trying = null;
    this.texts.clear();
    if (change.what.startsWith("label of")) this.version++;
    else void this.keepSource().then(() => this.version++); // lists ask about a source only while it is there
    if (rows !== state.rows.total) void this.load();
    else if (labelled !== state.labelled.total) void this.loadHand();
  }

  private async pictured(picture: State["picture"]): Promise<void> {
    const kind = this.state?.picture.kind;
    if (this.state) this.state = { ...this.state, picture };
    if (picture.kind === kind) return;
    const reply = await this.call("positions", {});
    if (reply) this.place(asFloat32(reply.bytes));
  }
}

const KEY = Symbol("studio");
export const provideStudio = (studio: Studio): Studio => setContext(KEY, studio);
export const useStudio = (): Studio => getContext(KEY);
