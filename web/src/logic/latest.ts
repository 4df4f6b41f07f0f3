/** One request in flight: while it runs only the newest value waits, older ones are forgotten. */
export class Latest<T> {
  private waiting: { value: T } | null = null;
  private running = false;

  constructor(private run: (value: T) => Promise<unknown>) {}

  give(value: T): void {
    this.waiting = { value };
    if (!this.running) void this.drain();
  }

  /** Forget what waits; what is in flight comes back on its own. */
  forget(): void {
    this.waiting = null;
  }

  private async drain(): Promise<void> {
    this.running = true;
    try {
      while (this.waiting) {
        const { value } = this.waiting;
        this.waiting = null;
        await this.run(value);
      }
    } finally {
      this.running = false;
    }
  }
}
