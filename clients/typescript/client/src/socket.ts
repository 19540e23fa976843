// The reconnecting socket: one at a time, kept open until it is stopped or the backend says that it must not come back.
import { jitter } from "./backoff.js";
import type { Clock } from "./clock.js";
import type { ClientFrame, Frame } from "./frames.js";
import { ProblemError } from "./problem.js";
import { textOf, type WebSocketClass, type WebSocketLike } from "./websocket.js";

export type SocketState = "disconnected" | "connecting" | "connected";

/** Why a socket ended for good. */
export class SocketClosedError extends Error {
  override readonly name = "SocketClosedError";
  constructor(
    readonly code: number,
    readonly reason: string,
    options?: ErrorOptions,
  ) {
    super(`the socket is closed: ${reason || code}`, options);
  }
}

/** What the device_hello says besides its type; `protocol` is 3 and `batch` true unless it says otherwise. */
export interface Hello {
  device_id: string;
  name?: string;
  timezone?: string;
  agent_ids?: string[];
  protocol?: number;
  journal?: boolean;
  batch?: boolean;
}

export interface SocketOptions {
  url: string;
  /** A ticket for one connection; it is asked for before each. */
  ticket: () => Promise<string>;
  WebSocket: WebSocketClass;
  /** Asked for before each connection. */
  hello: () => Promise<Hello> | Hello;
  clock: Clock;
  /** Full jitter between these, in milliseconds: 500 and 20,000. */
  minReconnectDelay?: number;
  maxReconnectDelay?: number;
  /** Nothing heard for so long: the connection is dead. The server pings every 30 s; 75,000. */
  maxSilence?: number;
  /** How long a connection may take to be made and introduced; 20,000. */
  connectWithin?: number;
}

// The backend does not want this client back until something was mended.
const terminal = new Set([1007, 1008, 4001]);
const connecting = 0;
const open = 1;

/** Keeps one socket open. Frames are handed to listeners in order. */
export class Socket {
  readonly #o: Required<SocketOptions>;
  readonly #frames = new Set<(frame: Frame) => void>();
  readonly #ready = new Set<() => void>();
  readonly #lost = new Set<() => void>();
  readonly #states = new Set<(state: SocketState, why?: Error) => void>();
  #state: SocketState = "disconnected";
  #ws: WebSocketLike | undefined;
  #introduced = false;
  #wanted = false;
  #attempt = 0;
  #serial = 0;
  #since = 0;
  #timer: unknown;
  #watchdog: unknown;
  #announced: number | undefined;
  #ended: SocketClosedError | undefined;

  constructor(options: SocketOptions) {
    this.#o = { minReconnectDelay: 500, maxReconnectDelay: 20_000, maxSilence: 75_000, connectWithin: 20_000, ...options };
  }

  get state(): SocketState {
    return this.#state;
  }

  /** Why it ended for good; undefined while it is wanted, or was stopped. */
  get ended(): SocketClosedError | undefined {
    return this.#ended;
  }

  /** Connects, and stays connected. */
  start(): void {
    if (this.#wanted) return;
    this.#wanted = true;
    this.#ended = undefined;
    this.#attempt = 0;
    void this.#connect();
  }

  /** Closes, and stays closed until it is started again. */
  stop(): void {
    this.#wanted = false;
    this.#drop(1000);
    this.#to("disconnected");
  }

  /** Closes for good, with a reason for those who listen. */
  end(code: number, reason: string): void {
    if (!this.#wanted) return;
    this.#drop(1000);
    this.#end(code, reason);
  }

  /** Connects at once where it waits to: a browser that is online again need not wait. */
  wake(): void {
    if (!this.#wanted || this.#ws || this.#timer === undefined) return;
    this.#o.clock.clearTimeout(this.#timer);
    this.#timer = undefined;
    void this.#connect();
  }

  /** Sends a frame; false: there is no introduced connection, and nothing was sent. */
  send(frame: ClientFrame): boolean {
    if (!this.#introduced || this.#ws?.readyState !== open) return false;
    this.#ws.send(JSON.stringify(frame));
    return true;
  }

  /** Ends the connection without a word, as a lost network does, and connects again. */
  cut(): void {
    this.#lose(this.#ws, 1006, "cut");
  }

  onFrame(listener: (frame: Frame) => void): () => void {
    return listen(this.#frames, listener);
  }

  /** Called at once if a connection is introduced, and after every further introduction. */
  onReady(listener: () => void): () => void {
    const stop = listen(this.#ready, listener);
    if (this.#introduced) listener();
    return stop;
  }

  /** Called whenever a connection is lost. */
  onLost(listener: () => void): () => void {
    return listen(this.#lost, listener);
  }

  onState(listener: (state: SocketState, why?: Error) => void): () => void {
    return listen(this.#states, listener);
  }

  async #connect(): Promise<void> {
    this.#to("connecting");
    this.#announced = undefined;
    let address: URL;
    let hello: Hello;
    const attempt = ++this.#serial;
    try {
      hello = await this.#o.hello();
      address = new URL(`${this.#o.url.replace(/^http/, "ws").replace(/\/$/, "")}/api/v1/ws/device`);
      address.searchParams.set("ticket", await this.#o.ticket());
    } catch (error) {
      if (!this.#wanted || attempt !== this.#serial) return;
      // Who is not let in will not be let in by trying again.
      if (error instanceof ProblemError && (error.status === 401 || error.code === "scope_erased")) return this.#end(1008, error.message, error);
      return this.#again();
    }
    if (!this.#wanted || attempt !== this.#serial) return;
    const ws = new this.#o.WebSocket(address.href);
    this.#ws = ws;
    ws.onopen = () => {
      if (ws === this.#ws) ws.send(JSON.stringify({ type: "device_hello", protocol: 3, agent_ids: [], batch: true, ...hello }));
    };
    ws.onmessage = (event: { data: unknown }) => this.#hear(ws, event);
    ws.onclose = (event: { code: number; reason: unknown }) => this.#lose(ws, event.code, String(event.reason ?? ""));
    ws.onerror = () => undefined; // the close that follows says more
    this.#watch(ws, this.#o.connectWithin);
  }

  #hear(ws: WebSocketLike, event: { data: unknown }): void {
    if (ws !== this.#ws) return;
    const text = textOf(event);
    if (text === undefined) return;
    let frame: Frame;
    try {
      frame = JSON.parse(text) as Frame;
    } catch {
      return this.#lose(ws, 1002, "a frame that is not JSON");
    }
    if (this.#introduced || frame.type === "hello") this.#watch(ws, this.#o.maxSilence);
    if (frame.type === "ping") ws.send('{"type":"pong"}');
    if (frame.type === "reconnect") {
      // The server closes when what was queued has left; should it not, the client does.
      this.#announced = frame.after_ms;
      this.#watch(ws, 10_000);
    }
    if (frame.type === "hello" && !this.#introduced) {
      this.#introduced = true;
      this.#since = this.#o.clock.now();
      for (const listener of [...this.#frames]) listener(frame);
      this.#to("connected");
      for (const listener of [...this.#ready]) listener();
      return;
    }
    for (const listener of [...this.#frames]) listener(frame);
  }

  // Who watches a silent connection ends it: a network may take a quarter of an hour to say that it is gone.
  #watch(ws: WebSocketLike, ms: number): void {
    this.#o.clock.clearTimeout(this.#watchdog);
    this.#watchdog = this.#o.clock.setTimeout(() => this.#lose(ws, 1006, "silence"), ms);
  }

  #lose(ws: WebSocketLike | undefined, code: number, reason: string): void {
    if (!ws || ws !== this.#ws) return;
    // Only a connection that lasted says that the backend is well again.
    if (this.#introduced && this.#o.clock.now() - this.#since >= this.#o.maxReconnectDelay) this.#attempt = 0;
    this.#drop(code);
    if (!this.#wanted) return this.#to("disconnected");
    if (terminal.has(code)) return this.#end(code, reason);
    this.#again();
  }

  #drop(code: number): void {
    this.#serial++;
    this.#o.clock.clearTimeout(this.#timer);
    this.#o.clock.clearTimeout(this.#watchdog);
    this.#timer = this.#watchdog = undefined;
    const ws = this.#ws;
    const introduced = this.#introduced;
    this.#ws = undefined;
    this.#introduced = false;
    if (ws) release(ws, code);
    if (introduced) for (const listener of [...this.#lost]) listener();
  }

  #again(): void {
    this.#to("connecting");
    const wait = this.#announced ?? jitter(this.#o.clock, this.#attempt++, this.#o.minReconnectDelay, this.#o.maxReconnectDelay);
    this.#timer = this.#o.clock.setTimeout(() => {
      this.#timer = undefined;
      void this.#connect();
    }, wait);
  }

  #end(code: number, reason: string, cause?: Error): void {
    this.#wanted = false;
    this.#ended = new SocketClosedError(code, reason, cause ? { cause } : undefined);
    this.#to("disconnected", this.#ended);
  }

  #to(state: SocketState, why?: Error): void {
    if (this.#state === state && !why) return;
    this.#state = state;
    for (const listener of [...this.#states]) listener(state, why);
  }
}

function release(ws: WebSocketLike, code: number): void {
  ws.onopen = ws.onmessage = ws.onclose = null;
  ws.onerror = () => undefined; // `ws` throws an error that nobody takes
  // A peer that is silent answers no close frame either.
  if (ws.terminate && (code === 1006 || ws.readyState === connecting)) ws.terminate();
  else if (ws.readyState <= open) ws.close(1000);
}

function listen<T>(set: Set<T>, listener: T): () => void {
  const own = listener;
  set.add(own);
  return () => set.delete(own);
}
