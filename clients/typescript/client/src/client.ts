// One account's client: HTTP, the socket, subscriptions, requests, the outbox, and the device's side of calls.
import { Asks } from "./asks.js";
import type { Subtle } from "./chain.js";
import { type Clock, systemClock } from "./clock.js";
import { type Command, Commands } from "./commands.js";
import { Device, type DeviceExecutor, type DeviceOptions } from "./device.js";
import type { ClientFrame, Frame } from "./frames.js";
import { Outbox } from "./outbox.js";
import { Positions } from "./position.js";
import type { Ask, Asked } from "./requests.js";
import { type Api, createApi, perform } from "./rest.js";
import { type Hello, Socket, type SocketOptions } from "./socket.js";
import { MemoryStorage, type Storage } from "./storage.js";
import { Subscription, type Want } from "./subscription.js";
import { Auth } from "./tokens.js";
import { TimelineFollower } from "./follower.js";
import type { WebSocketClass } from "./websocket.js";

export interface ClientOptions {
  /** Of the backend, such as `https://cairn.example`. */
  url: string;
  /** What outlives the process; absent: nothing does. */
  storage?: Storage;
  /** Who this client is; an id is made once, and kept in the storage. */
  device?: DeviceOptions & Partial<Pick<Hello, "name" | "timezone" | "agent_ids">> & { id?: string; executor?: DeviceExecutor };
  socket?: Pick<SocketOptions, "minReconnectDelay" | "maxReconnectDelay" | "maxSilence" | "connectWithin">;
  /** How often a request over HTTP is repeated that may be; 4. */
  retries?: number;
  /** How many items of a subscription wait for who iterates it; 4096. */
  maxQueued?: number;
  fetch?: (request: Request) => Promise<Response>;
  WebSocket?: WebSocketClass;
  subtle?: Subtle;
  clock?: Clock;
  newID?: () => string;
}

/** Makes a client. It talks to nobody before it is asked to. */
export function createClient(options: ClientOptions): Client {
  return new Client(options);
}

const deviceKey = "cairn/device";

export class Client {
  readonly auth: Auth;
  readonly api: Api;
  readonly socket: Socket;
  readonly outbox: Outbox;
  readonly storage: Storage;
  /** The greatest Position that was seen: reads show at least that. */
  readonly positions = new Positions();
  readonly #asks: Asks;
  readonly #commands: Commands;
  readonly #device: Device | undefined;
  readonly #subscriptions = new Map<string, Subscription>();
  readonly #all = new Set<Subscription>();
  readonly #o: ClientOptions;
  readonly #run: ConstructorParameters<typeof Subscription>[1];
  #serial = 0;
  #id: Promise<string> | undefined;
  readonly #wake = () => this.socket.wake();

  constructor(options: ClientOptions) {
    this.#o = options;
    const url = options.url.replace(/\/$/, "");
    const clock = options.clock ?? systemClock;
    const storage = options.storage ?? new MemoryStorage();
    const newID = options.newID ?? (() => crypto.randomUUID());
    const fetch = options.fetch ?? ((request: Request) => globalThis.fetch(request));
    const WebSocket = options.WebSocket ?? (globalThis as { WebSocket?: WebSocketClass }).WebSocket;
    if (!WebSocket) throw new TypeError("there is no global WebSocket here: give one, such as that of `ws`");
    const onPosition = (position: string | null) => this.positions.take(position);
    this.storage = storage;
    this.auth = new Auth({ url, fetch, storage, clock, onEnd: () => this.#loggedOut() });
    const rest = { url, auth: this.auth, positions: this.positions, fetch, clock, newID, retries: options.retries ?? 4 };
    this.api = createApi(rest);
    this.outbox = new Outbox(storage);
    this.socket = new Socket({
      ...options.socket,
      url,
      WebSocket,
      clock,
      ticket: async () => (await this.api.POST("/api/v1/ws/tickets")).data!.ticket,
      hello: () => this.#hello(),
    });
    const send = (frame: ClientFrame) => this.socket.send(frame);
    this.#asks = new Asks({ send, outbox: this.outbox, clock, newID, onPosition });
    this.#commands = new Commands({ url, perform: (request) => perform(rest, request), outbox: this.outbox, clock, newID, onPosition });
    this.#run = {
      send,
      attach: (subscription) => {
        const id = `s${++this.#serial}`;
        this.#subscriptions.set(id, subscription);
        return id;
      },
      detach: (id) => void this.#subscriptions.delete(id),
      storage,
      subtle: options.subtle ?? crypto.subtle,
      clock,
      maxQueued: options.maxQueued ?? 4096,
    };
    // Answers that were never acknowledged leave first, then requests, then subscriptions.
    if (options.device?.executor) this.#device = new Device(this.socket, options.device.executor, { clock, ...options.device });
    this.socket.onFrame((frame) => this.#take(frame));
    this.socket.onReady(() => {
      void this.#asks.connected();
      for (const subscription of this.#all) subscription.connected();
    });
    this.socket.onLost(() => {
      for (const subscription of this.#all) subscription.lost();
    });
    this.socket.onState((_, why) => {
      if (why) this.#fail(why);
    });
  }

  /** Connects and stays connected, and goes on with what an earlier process left in the outbox. */
  connect(): void {
    this.socket.start();
    void this.#commands.resume();
    (globalThis as { addEventListener?: (type: string, listener: () => void) => void }).addEventListener?.("online", this.#wake);
  }

  /** Ends everything. What has no end yet stays in the outbox; resolves when the calls in hand are done. */
  async close(): Promise<void> {
    (globalThis as { removeEventListener?: (type: string, listener: () => void) => void }).removeEventListener?.("online", this.#wake);
    const reason = new Error("the client was closed");
    for (const subscription of [...this.#all]) subscription.close();
    this.#asks.close(reason);
    this.#commands.close(reason);
    await this.#device?.stop();
    this.socket.stop();
  }

  /** Follows a stream or a scope. It begins when there is a connection. */
  subscribe(want: Want): Subscription {
    const subscription = new Subscription(want, {
      ...this.#run,
      forget: (it) => void this.#all.delete(it),
    });
    this.#all.add(subscription);
    if (this.socket.ended) subscription.close(this.socket.ended);
    return subscription;
  }

  /** Follows a thread as a chat shows it: committed rows, and what is streaming now. */
  timeline(thread: string, options: { signal?: AbortSignal; limit?: number } = {}): TimelineFollower {
    return new TimelineFollower(this, thread, { ...(this.#o.clock ? { clock: this.#o.clock } : {}), ...options });
  }

  /** Sends a message. It is kept until its end is known. */
  ask(ask: Ask): Asked {
    return this.#asks.ask(ask);
  }

  /** The requests without an end, also those of an earlier process. */
  pending(): Promise<Asked[]> {
    return this.#asks.pending();
  }

  /** Ends a request; its end comes as for any other. False: there is no connection. */
  cancel(requestId: string): boolean {
    return this.socket.send({ type: "cancel", request_id: requestId });
  }

  /** A command over HTTP that survives the process. */
  command<T = unknown>(command: Command): Promise<T> {
    return this.#commands.send<T>(command);
  }

  /** This installation's id. */
  deviceID(): Promise<string> {
    this.#id ??= (async () => {
      const given = this.#o.device?.id ?? (await this.storage.get(deviceKey));
      if (given) return given;
      const made = this.#o.newID?.() ?? crypto.randomUUID();
      await this.storage.set(deviceKey, made);
      return made;
    })();
    return this.#id;
  }

  async #hello(): Promise<Hello> {
    const { name, timezone, agent_ids, executor } = this.#o.device ?? {};
    return {
      device_id: await this.deviceID(),
      timezone: timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
      ...(name === undefined ? {} : { name }),
      ...(agent_ids === undefined ? {} : { agent_ids }),
      ...(executor ? { journal: true } : {}),
    };
  }

  #take(frame: Frame): void {
    const id = subscriptionOf(frame);
    const subscription = id === undefined ? undefined : this.#subscriptions.get(id);
    if (subscription) return subscription.take(frame);
    if (!this.#device && (frame.type === "tool_call" || frame.type === "data_request" || frame.type === "mutation")) {
      const type = frame.type === "data_request" ? "data_response" : "tool_result";
      this.socket.send({ type, id: frame.id, error: "this client has no data of the user's" });
      return;
    }
    this.#asks.take(frame);
  }

  #loggedOut(): void {
    this.positions.forget();
    this.socket.end(1008, "nobody is logged in");
  }

  #fail(error: Error): void {
    // A user who logs in again finds what had no end in the outbox.
    for (const subscription of [...this.#all]) subscription.close(error);
    this.#asks.close(error);
  }
}

function subscriptionOf(frame: Frame): string | undefined {
  switch (frame.type) {
    case "event":
    case "events":
    case "live":
    case "reset":
      return frame.subscription;
    case "subscribed":
    case "unsubscribed":
    case "error":
      return frame.id;
    default:
      return undefined;
  }
}
