// A backend's socket as far as subscriptions and requests go, in virtual time, with every fault that a network has.
import type { ClientFrame, ServerFrame, StreamEvent, Subscribe, WebSocketLike } from "../../src/index.js";
import type { Log } from "./log.js";
import type { VirtualClock } from "./time.js";

export interface Faults {
  /** Odds, for each frame that is sent: the connection dies before it. */
  cut?: number;
  /** For each event: it is left out, or told twice. */
  hole?: number;
  twice?: number;
  /** For each subscribe: `busy`. */
  busy?: number;
}

interface Followed {
  want: Subscribe;
  at: number;
}

export class Server {
  faults: Faults = {};
  batch = 8;
  readonly connections: Connection[] = [];
  /** What every client said, in order. */
  readonly heard: ClientFrame[] = [];
  /** Takes frames that are no subscription's. */
  answer: (frame: ClientFrame, connection: Connection) => void = () => undefined;
  /** Refuses connections with that close code. */
  refuse: number | undefined;
  greets = true;
  most = 0;

  constructor(
    readonly log: Log,
    readonly clock: VirtualClock,
  ) {}

  get WebSocket() {
    const server = this;
    return class extends Connection {
      constructor(_url: string) {
        super(server);
      }
    };
  }

  get current(): Connection | undefined {
    return this.connections.find((connection) => connection.readyState === 1);
  }

  /** Tells followers what is new. */
  publish(): void {
    for (const connection of this.connections) connection.tell();
  }
}

export class Connection implements WebSocketLike {
  readyState = 0;
  onopen: ((event: never) => void) | null = null;
  onmessage: ((event: never) => void) | null = null;
  onclose: ((event: never) => void) | null = null;
  onerror: ((event: never) => void) | null = null;
  readonly follows = new Map<string, Followed>();
  readonly #server: Server;
  #greeted = false;

  constructor(server: Server) {
    this.#server = server;
    server.connections.push(this);
    server.clock.setTimeout(() => {
      if (this.readyState !== 0) return;
      if (server.refuse !== undefined) return this.die(server.refuse);
      this.readyState = 1;
      this.onopen?.({} as never);
    }, 1);
  }

  send(text: string): void {
    const frame = JSON.parse(text) as ClientFrame;
    this.#server.heard.push(frame);
    this.#later(() => this.#take(frame));
  }

  close(): void {
    this.readyState = 3;
  }

  /** The connection ends, and the client sees the code. */
  die(code: number, reason = ""): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.onclose?.({ code, reason } as never);
  }

  say(frame: ServerFrame): void {
    const server = this.#server;
    if (this.readyState !== 1) return;
    if (server.clock.random() < (server.faults.cut ?? 0)) return this.die(1006);
    this.onmessage?.({ data: JSON.stringify(frame) } as never);
  }

  tell(): void {
    for (const id of this.follows.keys()) this.#pull(id);
  }

  #later(run: () => void): void {
    this.#server.clock.setTimeout(() => {
      if (this.readyState === 1) run();
    }, this.#server.clock.random() * 20);
  }

  #take(frame: ClientFrame): void {
    const server = this.#server;
    switch (frame.type) {
      case "device_hello":
        if (server.greets) this.say({ type: "hello", version: "test", features: [], scopes: [{ scope: "user-1", head: server.log.events.length }] });
        this.#greeted = true;
        break;
      case "subscribe": {
        if (!this.#greeted) throw new Error("subscribed before the hello");
        if (server.clock.random() < (server.faults.busy ?? 0)) return this.say({ type: "error", id: frame.id, code: "busy", message: "later", retry_after: 1 });
        const all = this.#events(frame);
        const head = frame.stream ? (all.at(-1)?.seq ?? 0) : server.log.events.length;
        const after = frame.after ?? head;
        const had = all.find((event) => this.#number(frame, event) === after);
        this.say({ type: "subscribed", id: frame.id, head });
        const reset = (reason: string) => this.say({ type: "reset", subscription: frame.id, reason, head, ...(all.length > 0 ? { head_hash: all.at(-1)!.hash } : {}) });
        if (after > head) return reset("beyond_head");
        if (frame.after_hash && had && had.hash !== frame.after_hash) return reset("other_hash");
        this.follows.set(frame.id, { want: frame, at: after });
        this.#pull(frame.id);
        break;
      }
      case "unsubscribe":
        this.follows.delete(frame.id);
        this.say({ type: "unsubscribed", id: frame.id });
        break;
      default:
        server.answer(frame, this);
    }
  }

  #number(want: Subscribe, event: StreamEvent): number {
    return want.stream ? event.seq : event.position;
  }

  #events(want: Subscribe): StreamEvent[] {
    return want.stream ? this.#server.log.of(want.stream) : this.#server.log.events;
  }

  #pull(id: string): void {
    const server = this.#server;
    const follows = this.follows.get(id);
    if (!follows) return;
    const { want } = follows;
    const next = this.#events(want).filter((event) => this.#number(want, event) > follows.at).slice(0, server.batch);
    if (next.length === 0) return;
    const at = this.#number(want, next.at(-1)!);
    follows.at = at;
    const types = want.filter?.types;
    const events: StreamEvent[] = [];
    for (const event of next) {
      if (types && !types.includes(event.event_type)) continue;
      const { stored, ...plain } = event;
      const told = want.stored ? event : plain;
      if (server.clock.random() < (server.faults.hole ?? 0)) continue;
      events.push(told);
      if (server.clock.random() < (server.faults.twice ?? 0)) events.push(told);
    }
    server.most = Math.max(server.most, events.length);
    this.#later(() => {
      if (this.follows.get(id) !== follows) return;
      if (events.length === 1 && next.length === 1 && !types && server.clock.random() < 0.5) this.say({ type: "event", subscription: id, ...events[0]! });
      else this.say({ type: "events", subscription: id, cursor: at, events });
      this.#pull(id);
    });
  }
}
