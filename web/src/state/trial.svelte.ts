import { Latest } from "../logic/latest";
import type { Setting, Trial } from "../protocol";
import type { Studio } from "./studio.svelte";

/** A radius that is being tried: nothing is kept until `keep`; the newest value wins, one is in flight. */
export class RadiusTrial {
  source = $state<string | null>(null);
  radius = $state<Setting>(null);
  reply = $state.raw<Trial | null>(null);
  private request = 0;
  private sender = new Latest<{ source: string; radius: Setting; request: number; begun: number }>(async (ask) => {
    const { begun, ...body } = ask;
    const reply = await this.studio.call("try_radius", body);
    if (!reply || this.source !== ask.source) return;
    this.reply = reply;
    this.studio.trying = reply.comparison;
    await this.studio.measured(begun, reply.seconds);
  });

  constructor(private studio: Studio) {}

  get open(): boolean {
    return this.source !== null;
  }

  try(source: string, radius: Setting): void {
    this.source = source;
    this.radius = radius;
    this.sender.give({ source, radius, request: ++this.request, begun: performance.now() });
  }

  async keep(): Promise<void> {
    if (this.source === null) return;
    const body = { source: this.source, radius: this.radius };
    this.sender.forget();
    this.forget();
    await this.studio.edit("radius", body);
  }

  async drop(): Promise<void> {
    if (this.source === null) return;
    this.sender.forget();
    this.forget();
    await this.studio.call("drop", {});
  }

  private forget(): void {
    this.source = null;
    this.reply = null;
    this.studio.trying = null;
  }
}
