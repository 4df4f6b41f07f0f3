import { functionName } from "../logic/formats";
import { Latest } from "../logic/latest";
import { spread } from "../logic/selection";
import type { ColourBy, Definition, Draft, SourceDetail, Suggested } from "../protocol";
import type { Studio } from "./studio.svelte";

const MOST_EXEMPLARS = 40;

type Kind = "keywords" | "regex" | "like";

/** A function being written in a form. It is previewed as soon as it says something, and kept by `save`. */
export class FunctionDraft {
  open = $state(false);
  kind = $state<Kind>("keywords");
  name = $state("");
  label = $state<string | null>(null); // null: not chosen yet, previewed as the one that covered rows have
  words = $state("");
  pattern = $state("");
  column = $state("");
  wholeWords = $state(true);
  ignoreCase = $state(true);
  rows = $state.raw<{ row: number; id: string; text: string }[]>([]);
  of = $state(0); // rows that the exemplars were taken from
  radius = $state(0.3);
  replaces = $state<string | null>(null);
  reply = $state.raw<Draft | null>(null);
  busy = $state(false);
  suggested = $state.raw<Suggested[] | null>(null); // until one is saved: the others are about votes of before
  private before: ColourBy = "label";
  private sender = new Latest<{ definition: Definition; begun: number }>(async ({ definition, begun }) => {
    const body = { definition, guess: this.label === null, ...(this.name && { name: this.name }), ...(this.replaces && { replaces: this.replaces }) };
    const reply = await this.studio.call("draft", body);
    if (!this.open || !reply) return;
    this.reply = reply;
    this.studio.trying = reply.ok ? reply.comparison : null;
    if (this.studio.by !== "draft") await this.studio.colour("draft");
    await this.studio.measured(begun, reply.seconds);
  });

  constructor(private studio: Studio) {}

  /** The class chosen, or until then the one guessed from the rows it covers. */
  get voted(): string | null {
    return this.label ?? this.reply?.label ?? null;
  }

  get definition(): Definition | null {
    const label = this.voted ?? this.studio.classes[0];
    const column = this.column || this.studio.state?.project.text || this.studio.state?.project.columns[0] || "";
    if (this.kind === "keywords") {
      const words = this.words.split(/[,\n]/).map((word) => word.trim()).filter(Boolean);
      return words.length ? { kind: "keywords", label, words, column, whole_words: this.wholeWords, ignore_case: this.ignoreCase } : null;
    }
    if (this.kind === "regex") return this.pattern ? { kind: "regex", label, pattern: this.pattern, column, ignore_case: this.ignoreCase } : null;
    return this.rows.length ? { kind: "like", label, rows: this.rows.map(({ id }) => id), radius: this.radius } : null;
  }

  /** The name given, or one made from what it looks for. */
  get title(): string {
    const said = this.kind === "keywords" ? this.words.split(/[,\n]/).slice(0, 2).join(" ") : this.kind === "regex" ? this.pattern : "";
    return this.name || functionName(said) || (this.rows.length ? functionName(`like_${this.studio.state?.project.text == null ? this.rows[0].id : this.rows[0].text.split(/\s+/).slice(0, 2).join(" ")}`) : "");
  }

  /** Why it cannot be saved yet; "" where it can. */
  get missing(): string {
    if (!this.definition) return this.kind === "like" ? "choose rows" : this.kind === "regex" ? "write a pattern" : "write a word";
    if (this.voted === null) return "choose a class";
    if (!/^[A-Za-z_]\w*$/.test(this.title)) return this.title ? "a name has letters, digits and _" : "give it a name";
    return this.reply && !this.reply.ok ? "it cannot be run" : "";
  }

  /** A new function of a kind; of example rows one of those that are selected. */
  begin(kind: Kind): void {
    const { selection } = this.studio;
    if (kind === "like" && selection?.length) void this.moreLike(selection);
    else this.start(kind);
  }

  start(kind: Kind, given: Partial<Pick<FunctionDraft, "words" | "label" | "name" | "rows" | "radius">> = {}): void {
    if (!this.open) this.before = this.studio.by === "draft" ? "label" : this.studio.by;
    Object.assign(this, {
      open: true, kind, name: "", label: null, words: "", pattern: "", column: "", rows: [], of: 0, replaces: null, reply: null,
      wholeWords: true, ignoreCase: true, ...given,
    });
    this.studio.tab = "draft";
    this.preview();
  }

  /** Change a function that a form can show. */
  change(source: SourceDetail): void {
    if (source.definition) this.fill(source.definition, source.name, source.name);
  }

  /** Put a definition into the form, to be looked at before it is saved. */
  fill(definition: Definition, name: string, replaces: string | null = null): void {
    if (definition.kind === "python") return;
    this.start(definition.kind, { label: definition.label, name });
    this.replaces = replaces;
    if (definition.kind === "keywords") {
      this.words = definition.words.join(", ");
      this.wholeWords = definition.whole_words;
    } else if (definition.kind === "regex") this.pattern = definition.pattern;
    else this.rows = definition.rows.map((id) => ({ row: -1, id, text: `row ${id}` }));
    if (definition.kind === "like") this.radius = definition.radius;
    else {
      this.column = definition.column;
      this.ignoreCase = definition.ignore_case;
    }
    this.preview();
  }

  /** "More like these": rows become exemplars, with the radius the server suggests. */
  async moreLike(numbers: ArrayLike<number>): Promise<void> {
    const some = spread(numbers, MOST_EXEMPLARS);
    const [suggested, ...lines] = await Promise.all([
      this.studio.call("suggest_radius", { rows: some }), ...some.map((row) => this.studio.rowText(row)),
    ]);
    const rows = lines.flatMap((line) => (line ? [{ row: line.row, id: line.id, text: line.text }] : []));
    const said = (label: string) => lines.filter((line) => (line?.hand ?? line?.label) === label).length;
    const label = [...this.studio.classes].sort((a, b) => said(b) - said(a))[0]; // what most of them are
    this.start("like", { rows, label: said(label) ? label : null, radius: suggested?.radius ?? 0.3 });
    this.of = numbers.length;
  }

  preview(): void {
    const { definition } = this;
    if (definition) this.sender.give({ definition, begun: performance.now() });
    else {
      this.sender.forget();
      this.reply = null;
      this.studio.trying = null;
    }
  }

  async save(): Promise<void> {
    const { definition } = this;
    if (!definition || this.missing) return;
    this.busy = true;
    const begun = performance.now();
    const saved = await this.studio.call("save_function", { definition, name: this.title, ...(this.replaces && { replaces: this.replaces }) });
    this.busy = false;
    if (!saved) return;
    this.suggested = null;
    await this.close();
    this.studio.openSource(saved.name);
    if (saved.change) void this.studio.measured(begun, saved.change.seconds);
  }

  async close(): Promise<void> {
    this.open = false;
    this.reply = null;
    this.studio.trying = null;
    this.sender.forget();
    if (this.studio.tab === "draft") this.studio.tab = "rows";
    if (this.studio.by === "draft") await this.studio.colour(this.before);
  }
}
