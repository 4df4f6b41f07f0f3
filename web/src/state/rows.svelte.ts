import type { Filter, RowLine, RowQuery } from "../protocol";
import { Paged, type Part } from "./paged.svelte";
import type { Studio } from "./studio.svelte";

type Counts = Partial<Record<Filter, number>>;

/** The rows that match what is asked. */
export class RowList extends Paged<RowLine, Part<RowLine> & { counts: Counts }> {
  find = $state("");
  like = $state.raw<{ row: number; words: string } | null>(null);
  filter = $state<Filter>("all");
  label = $state<string | null>(null);
  grid = $state(false); // pictures side by side
  sort = $state<NonNullable<RowQuery["sort"]>>("unsure");
  counts = $state.raw<Counts>({});

  constructor(private studio: Studio) {
    super(60);
  }

  get query(): RowQuery {
    const { source, selection } = this.studio;
    const about = this.filter === "near" || this.filter === "voted";
    return {
      ...(this.find && { find: this.find }), ...(this.like && { like: this.like.row }),
      ...(this.label !== null && { label: this.label }), filter: this.filter, sort: this.like ? "like" : this.filter === "near" ? "distance" : this.sort,
      ...(source && { source }), ...(selection && { selection: "mine" as const }),
      ...(about && !source && { filter: "all" as const, sort: this.like ? ("like" as const) : this.sort }),
    };
  }

  indexOf(row: number): number {
    return this.indexWhere((line) => line.row === row);
  }

  protected async ask(offset: number, limit: number) {
    const found = await this.studio.call("rows", { ...this.query, offset, limit });
    return found && { total: found.total, lines: found.rows, counts: found.counts };
  }

  protected took(found: Part<RowLine> & { counts: Counts }): void {
    super.took(found);
    this.counts = found.counts;
  }
}
