export interface Part<Line> { total: number; lines: Line[] }

/** A long list of which the server gives parts, fetched as they come into view. */
export abstract class Paged<Line, Found extends Part<Line> = Part<Line>> {
  total = $state(0);
  loaded = $state(false);
  pages = $state.raw(new Map<number, Line[]>());
  private wanted = new Set<number>();
  private turn = 0;

  constructor(private size: number) {}

  protected abstract ask(offset: number, limit: number): Promise<Found | undefined>;

  /** What a new answer says of the whole list. */
  protected took(found: Found): void {
    this.total = found.total;
  }

  at(index: number): Line | null {
    return this.pages.get(Math.floor(index / this.size))?.[index % this.size] ?? null;
  }

  indexWhere(is: (line: Line) => boolean): number {
    for (const [page, lines] of this.pages) {
      const place = lines.findIndex(is);
      if (place >= 0) return page * this.size + place;
    }
    return -1;
  }

  /** Ask anew for what is in view; old lines stay until new ones are here. */
  async refresh(first = 0, last = this.size): Promise<void> {
    const turn = ++this.turn;
    this.wanted.clear();
    const pages = new Map<number, Line[]>();
    for (const page of this.covering(first, Math.max(first + 1, last))) {
      const found = await this.ask(page * this.size, this.size);
      if (!found || turn !== this.turn) return;
      pages.set(page, found.lines);
      this.took(found);
    }
    this.pages = pages;
    this.loaded = true;
  }

  /** Ask for what came into view and is not here yet. */
  async want(first: number, last: number): Promise<void> {
    const turn = this.turn;
    for (const page of this.covering(first, last)) {
      if (this.pages.has(page) || this.wanted.has(page)) continue;
      this.wanted.add(page);
      const found = await this.ask(page * this.size, this.size);
      if (turn !== this.turn) return;
      if (found) this.pages = new Map(this.pages).set(page, found.lines);
      else this.wanted.delete(page);
    }
  }

  private covering(first: number, last: number): number[] {
    const pages = [];
    for (let page = Math.floor(first / this.size); page * this.size < last; page++) pages.push(page);
    return pages;
  }
}
