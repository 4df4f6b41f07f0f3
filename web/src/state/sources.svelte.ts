import type { SourceQuery, SourceRow } from "../protocol";
import type { Studio } from "./studio.svelte";

const PAGE = 50;

/** The sources that match, found and sorted by the server and fetched as they come into view. */
export class SourceList {
  find = $state("");
  sort = $state<NonNullable<SourceQuery["sort"]>>("file");
  descending = $state(false);
  total = $state(0);
  loaded = $state(false);
  pages = $state.raw(new Map<number, SourceRow[]>());
  private wanted = new Set<number>();
  private turn = 0;

  constructor(private studio: Studio) {}

  at(index: number): SourceRow | null {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
  }

  order(sort: NonNullable<SourceQuery["sort"]>): void {
    this.descending = this.sort === sort ? !this.descending : sort !== "name" && sort !== "file";
    this.sort = sort;
  }

  async refresh(first: number, last: number): Promise<void> {
    const turn = ++this.turn;
    this.wanted.clear();
    const pages = new Map<number, SourceRow[]>();
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(first, last - 1) / PAGE); page++) {
      const found = await this.ask(page);
      if (!found || turn !== this.turn) return;
      pages.set(page, found.sources);
      this.total = found.total;
    }
    this.pages = pages;
    this.loaded = true;
  }

  async want(first: number, last: number): Promise<void> {
    const turn = this.turn;
    for (let page = Math.floor(first / PAGE); page * PAGE < last; page++) {
      if (this.pages.has(page) || this.wanted.has(page)) continue;
      this.wanted.add(page);
      const found = await this.ask(page);
      if (found && turn === this.turn) this.pages = new Map(this.pages).set(page, found.sources);
    }
  }

  private ask(page: number) {
    const { find, sort, descending } = this;
    return this.studio.call("sources", { ...(find && { find }), sort, descending, offset: page * PAGE, limit: PAGE });
  }
}
