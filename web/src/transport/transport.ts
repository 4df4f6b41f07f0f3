import type { Pushed, Verbs } from "../protocol";

export type Connection = "opening" | "open" | "lost";

/** How the page speaks to a session: a socket to the studio's server, or a notebook's messages. */
export interface Transport {
  call<V extends keyof Verbs>(verb: V, body: Verbs[V][0]): Promise<Verbs[V][1]>;
  on<T extends keyof Pushed>(type: T, handler: (message: Pushed[T]) => void): void;
  onConnection(handler: (connection: Connection) => void): void;
  /** Where a row's picture is, or null where this transport cannot show it. */
  image(row: number, size: number): string | null;
  /** Where a file the server wrote can be fetched, or null where it can only be found on disk. */
  file(address: string): string | null;
  close(): void;
}

/** The server's refusal of one verb; `kind` is the Python error's class. */
export class VerbError extends Error {
  constructor(message: string, readonly kind: string, readonly detail: Record<string, unknown> = {}) {
    super(message);
  }
}

type Message = Record<string, unknown>;
interface Waiting { verb: string; body: unknown; resolve: (value: never) => void; reject: (error: Error) => void }

/** Pairs replies with calls by their id and hands pushed messages (id 0) to who asked for them. */
export class Exchange {
  private next = 1;
  private waiting = new Map<number, Waiting>();
  private handlers = new Map<string, ((message: never) => void)[]>();

  constructor(private send: (message: { id: number; verb: string; body: unknown }) => void) {}

  call(verb: string, body: unknown): Promise<never> {
    return new Promise((resolve, reject) => {
      const id = this.next++;
      this.waiting.set(id, { verb, body, resolve, reject });
      this.send({ id, verb, body });
    });
  }

  on(type: string, handler: (message: never) => void): void {
    this.handlers.set(type, [...(this.handlers.get(type) ?? []), handler]);
  }

  receive(head: Message, bytes?: Uint8Array): void {
    if (!head.id) {
      const message = bytes ? { head, bytes } : head;
      for (const handler of this.handlers.get(String(head.type)) ?? []) handler(message as never);
      return;
    }
    const call = this.waiting.get(head.id as number);
    if (!call) return;
    this.waiting.delete(head.id as number);
    const error = head.error as { message: string; kind: string } | undefined;
    if (error) call.reject(new VerbError(error.message, error.kind, error));
    else call.resolve((bytes ? { head: head.reply ?? head, bytes } : head.reply) as never);
  }

  /** After a lost connection: send again what may be said twice, refuse what may not. */
  again(): void {
    for (const [id, call] of this.waiting) {
      if (ONCE.has(call.verb)) {
        this.waiting.delete(id);
        call.reject(new VerbError(`The connection was lost during “${call.verb}”; the history says whether it was kept.`, "Lost"));
      } else this.send({ id, verb: call.verb, body: call.body });
    }
  }
}

const ONCE = new Set(["undo", "redo", "save_function", "save_code", "tune"]);
