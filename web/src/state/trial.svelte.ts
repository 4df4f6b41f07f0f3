import { Latest } from "../logic/latest";
import type { Setting, Trial } from "../protocol";
import type { Studio } from "./studio.svelte";

/**
 * A radius that is being tried: nothing is kept until `keep`; the newest value wins, one is in flight.
 * The slider shows the radius that is wanted. Everything else follows when the map has been painted: numbers and
 * curves painted first would keep the map waiting.
 */
export class RadiusTrial {
  source = $state<string | null>(null);
  wanted = $state<Setting>(null);
  radius = $state<Setting>(null); // the one that `reply` and the map are about
  reply = $state.raw<Trial | null>(null);
  private request = 0;
  private sender = new Latest<{ source: string; radius: Setting; request: number; begun: number }>(async (ask) => {
    const { begun, ...body } = ask;
    this.studio.scene?.expectMarks();
    const reply = await this.studio.call("try_radius", body);
    if (this.source !== ask.source) return;
    this.radius = ask.radius;
    if (!reply) return;
    this.reply = reply;
    this.studio.trying = reply.comparison;
    await this.studio.measured(begun, reply.seconds);
  });

  constructor(private studio: Studio) {}

  get open(): boolean {
    return this.source !== null;
  }

  try(source: string, radius: Setting): void {
    if (this.source !== source) [this.source, this.radius, this.reply] = [source, radius, null];
    this.wanted = radius;
    this.sender.give({ source, radius, request: ++this.request, begun: performance.now() });
  }

  async keep(): Promise<void> {
    if (this.source === null) return;
    const body = { source: this.source, radius: this.wanted };
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
