import type { Pushed, Verbs } from "../protocol";
import { decodeFrame } from "./frames";
import { Exchange, type Connection, type Transport } from "./transport";

/** One WebSocket that opens again when it is lost; calls made meanwhile wait. */
export class SocketTransport implements Transport {
  private socket: WebSocket | null = null;
  private held: string[] = [];
  private closed = false;
  private opened = false;
  private wait = 250;
  private listeners: ((connection: Connection) => void)[] = [];
  private exchange = new Exchange((message) => this.send(JSON.stringify(message)));

  constructor(private address: string) {
    this.open();
  }

  call<V extends keyof Verbs>(verb: V, body: Verbs[V][0]): Promise<Verbs[V][1]> {
    return this.exchange.call(verb, body);
  }

  on<T extends keyof Pushed>(type: T, handler: (message: Pushed[T]) => void): void {
    this.exchange.on(type, handler);
  }

  onConnection(handler: (connection: Connection) => void): void {
    this.listeners.push(handler);
  }

  image(row: number, size: number): string {
    return `/api/image/${row}?size=${size}`;
  }

  file(address: string): string {
    return address;
  }

  close(): void {
    this.closed = true;
    this.socket?.close();
  }

  private open(): void {
    const socket = new WebSocket(this.address);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.wait = 250;
      if (this.opened) {
        this.held = []; // every waiting call is sent again, these among them
        this.exchange.again();
      }
      this.opened = true;
      for (const text of this.held.splice(0)) socket.send(text);
      this.tell("open");
    };
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") this.exchange.receive(JSON.parse(data));
      else {
        const { head, bytes } = decodeFrame(data);
        this.exchange.receive(head, bytes);
      }
    };
    socket.onclose = () => {
      if (this.closed) return;
      this.tell("lost");
      setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(this.wait * 2, 4000);
    };
    this.socket = socket;
  }

  private send(text: string): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(text);
    else this.held.push(text);
  }

  private tell(connection: Connection): void {
    for (const listener of this.listeners) listener(connection);
  }
}
