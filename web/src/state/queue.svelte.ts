import type { Purpose, Queued } from "../protocol";
import type { Studio } from "./studio.svelte";

export interface Answered { line: Queued; label: string | null; model: string | null; flipped: number | null }

/** Rows to label, in the server's order; the model's answer is shown only after the person's. */
export class Queue {
  rows = $state.raw<Queued[]>([]);
  at = $state(0);
  purpose = $state<Purpose>("mix");
  answered = $state.raw<Answered[]>([]);
  loading = $state(false);
  asked = $state(false);
  private seen = new Set<number>();

  constructor(private studio: Studio) {}

  get current(): Queued | null {
    return this.rows[this.at] ?? null;
  }

  async fill(purpose: Purpose = this.purpose): Promise<void> {
    this.purpose = purpose;
    this.loading = true;
    const reply = await this.studio.call("next", { n: 10, purpose, without: [...this.seen] });
    this.loading = false;
    this.asked = true;
    if (!reply) return;
    this.rows = reply.rows;
    this.at = 0;
    this.show();
  }

  async answer(label: string): Promise<void> {
    const line = this.current;
    if (!line) return;
    this.move(1);
    const change = await this.studio.label(line.row, label, line.chosen);
    if (!change) return;
    this.seen.add(line.row);
    this.answered = [{ line, label, model: line.label, flipped: change.flipped }, ...this.answered].slice(0, 50);
    if (!this.current) await this.fill();
  }

  skip(): void {
    const line = this.current;
    if (!line) return;
    this.answered = [{ line, label: null, model: null, flipped: null }, ...this.answered].slice(0, 50);
    this.seen.add(line.row);
    this.move(1);
    if (!this.current) void this.fill();
  }

  move(by: number): void {
    this.at = Math.max(0, Math.min(this.rows.length, this.at + by));
    this.show();
  }

  /** Take back the last answer and look at its row again. */
  async undo(): Promise<void> {
    const [latest, ...rest] = this.answered;
    if (latest?.label) await this.studio.edit("undo", {});
    if (!latest) return;
    this.answered = rest;
    this.seen.delete(latest.line.row);
    const place = this.rows.findIndex(({ row }) => row === latest.line.row);
    if (place >= 0) this.at = place;
    else {
      this.rows = [latest.line, ...this.rows];
      this.at = 0;
    }
    this.show();
  }

  private show(): void {
    if (this.current) this.studio.row = this.current.row;
  }
}
