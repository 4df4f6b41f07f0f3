import type { Pushed, Verbs } from "../protocol";
import { Exchange, type Connection, type Transport } from "./transport";

/** What anywidget gives a widget, as far as it is used here. */
export interface Model {
  send(content: unknown): void;
  on(event: "msg:custom", handler: (content: Record<string, unknown>, buffers: DataView[]) => void): void;
  off(event: "msg:custom"): void;
}

/** The same messages as the socket's, as a widget's custom messages; bytes come as the first buffer. */
export class NotebookTransport implements Transport {
  private exchange: Exchange;

  constructor(private model: Model) {
    this.exchange = new Exchange((message) => model.send(message));
    model.on("msg:custom", (content, buffers) => {
      const view = buffers?.[0];
      this.exchange.receive(content, view && new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
    });
  }

  call<V extends keyof Verbs>(verb: V, body: Verbs[V][0]): Promise<Verbs[V][1]> {
    return this.exchange.call(verb, body);
  }

  on<T extends keyof Pushed>(type: T, handler: (message: Pushed[T]) => void): void {
    this.exchange.on(type, handler);
  }

  onConnection(handler: (connection: Connection) => void): void {
    handler("open"); // the notebook's own connection carries the messages, and says when it is lost
  }

  image(): null {
    return null;
  }

  file(): null {
    return null;
  }

  close(): void {
    this.model.off("msg:custom");
  }
}
