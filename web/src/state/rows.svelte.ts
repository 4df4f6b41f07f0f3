import type { Filter, RowLine, RowQuery } from "../protocol";
import type { Studio } from "./studio.svelte";

const PAGE = 60;

/** The rows that match what is asked, fetched by pages as they come into view. */
export class RowList {
  find = $state("");
  like = $state<number | null>(null);
  filter = $state<Filter>("all");
  sort = $state<NonNullable<RowQuery["sort"]>>("unsure");
  total = $state(0);
  counts = $state.raw<Partial<Record<Filter, number>>>({});
  loaded = $state(false);
  pages = $state.raw(new Map<number, RowLine[]>());
  private wanted = new Set<number>();
  private turn = 0;

  constructor(private studio: Studio) {}

  get query(): RowQuery {
    const { source, selection } = this.studio;
    const about = this.filter === "near" || this.filter === "voted";
    return {
      ...(this.find && { find: this.find }), ...(this.like !== null && { like: this.like }),
      filter: this.filter, sort: this.like !== null ? "like" : this.filter === "near" ? "distance" : this.sort,
      ...(source && { source }), ...(selection && { selection: Array.from(selection) }),
      ...(about && !source && { filter: "all" as const }),
    };
  }

  at(index: number): RowLine | null {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
  }

  indexOf(row: number): number {
    for (const [page, lines] of this.pages) {
      const place = lines.findIndex((line) => line.row === row);
      if (place >= 0) return page * PAGE + place;
    }
    return -1;
  }

  /** Ask anew from the first page; old lines stay until new ones are here. */
  async refresh(first = 0, last = PAGE): Promise<void> {
    this.turn++;
    this.wanted.clear();
    const turn = this.turn;
    const pages = new Map<number, RowLine[]>();
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(first, last - 1) / PAGE); page++) {
      const found = await this.studio.call("rows", { ...this.query, offset: page * PAGE, limit: PAGE });
      if (!found || turn !== this.turn) return;
      pages.set(page, found.rows);
      this.total = found.total;
      this.counts = found.counts;
    }
    this.pages = pages;
    this.loaded = true;
  }

  async want(first: number, last: number): Promise<void> {
    const turn = this.turn;
    for (let page = Math.floor(first / PAGE); page * PAGE < last; page++) {
      if (this.pages.has(page) || this.wanted.has(page)) continue;
      this.wanted.add(page);
      const found = await this.studio.call("rows", { ...this.query, offset: page * PAGE, limit: PAGE });
      if (found && turn === this.turn) this.pages = new Map(this.pages).set(page, found.rows);
    }
  }
}
