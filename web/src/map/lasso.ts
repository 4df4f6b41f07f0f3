import type { Grid } from "./grid";

/** Above this many rows a lasso is worked out beside the page, which stays responsive. */
export const BESIDE_ABOVE = 100_000;

export type Asked = { positions?: Float32Array; id: number; shape: number[] };
export type Found = { id: number; rows: Uint32Array };

/** The rows inside a shape: at once where they are few, in a worker where they are many and the page has one. */
export class Lasso {
  /** Makes a worker; a notebook, which is one file without others beside it, has none. */
  static worker: (() => Worker) | null = null;
  private worker: Worker | null = null;
  private given: Float32Array | null = null; // the positions the worker knows
  private waiting = new Map<number, (rows: Uint32Array) => void>();
  private id = 0;

  constructor(private grid: () => Grid) {}

  async inside(positions: Float32Array, shape: number[]): Promise<Uint32Array> {
    if (positions.length <= 2 * BESIDE_ABOVE || !Lasso.worker) return this.grid().inside(shape);
    this.worker ??= this.start(Lasso.worker());
    const id = ++this.id;
    const asked: Asked = { id, shape, ...(this.given !== positions && { positions }) };
    this.given = positions;
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.worker!.postMessage(asked);
    });
  }

  private start(worker: Worker): Worker {
    worker.onmessage = ({ data }: MessageEvent<Found>) => {
      this.waiting.get(data.id)?.(data.rows);
      this.waiting.delete(data.id);
    };
    return worker;
  }
}
