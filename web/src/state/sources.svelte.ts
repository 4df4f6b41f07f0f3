import type { SourceQuery, SourceRow } from "../protocol";
import { Paged } from "./paged.svelte";
import type { Studio } from "./studio.svelte";

/** The sources that match, found and sorted by the server. */
export class SourceList extends Paged<SourceRow> {
  find = $state("");
  sort = $state<NonNullable<SourceQuery["sort"]>>("file");
  descending = $state(false);

  constructor(private studio: Studio) {
    super(50);
  }

  order(sort: NonNullable<SourceQuery["sort"]>): void {
    this.descending = this.sort === sort ? !this.descending : sort !== "name" && sort !== "file";
    this.sort = sort;
  }

  protected async ask(offset: number, limit: number) {
    const { find, sort, descending } = this;
    const found = await this.studio.call("sources", { ...(find && { find }), sort, descending, offset, limit });
    return found && { total: found.total, lines: found.sources };
  }
}
