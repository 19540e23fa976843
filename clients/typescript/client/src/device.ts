// The device's side of the socket: calls come down, are done once, and their answers go up until they are recorded.
import { type Clock, systemClock } from "./clock.js";
import type { ClientFrame, DataRequest, Frame, MutationRequest, ToolCall } from "./frames.js";

/** A call that the backend has for this device. */
export type DeviceCall = ToolCall | DataRequest | MutationRequest;

/** What an answer has besides `type` and `id`: one of `row`, `rows`, `results`, `deleted`, `ok`, `error`. */
export type Answer = Record<string, unknown>;

/** An answer in the journal, by the call's id. */
export interface JournalEntry {
  id: string;
  /** The type of the call that it answers: a `data_request` is answered by `data_response`, the others by `tool_result`. */
  call: DeviceCall["type"];
  answer: Answer;
}

/**
 * Does calls and remembers their answers. What a call did and its entry in the journal are one transaction: a device that dies
 * in between did nothing, and a call whose id is known is answered as before and not done again.
 */
export interface DeviceExecutor {
  /** What is wrong with the call is an answer with `error`, and journaled too; a rejection means that nothing is known to be done. */
  execute(call: DeviceCall): Promise<{ answer: Answer; repeated: boolean }>;
  /** The backend has recorded the answer: the entry is kept a week more. */
  acknowledge(id: string): Promise<void> | void;
  /** Entries that were not acknowledged, the oldest first. */
  unacknowledged(): Promise<JournalEntry[]> | JournalEntry[];
}

/** What the executor's driver needs of a socket. */
export interface DeviceSocket {
  send(frame: ClientFrame): boolean;
  onFrame(listener: (frame: Frame) => void): () => void;
  onReady(listener: () => void): () => void;
}

/** What may be watched while calls are done. */
export interface DeviceOptions {
  clock?: Clock;
  /** Sends `tool_ack` when a call is begun. */
  acknowledgeStart?: boolean;
  onCall?: (call: DeviceCall) => void;
  onAnswer?: (call: DeviceCall, answer: Answer, repeated: boolean) => void;
  /** A call that could not be done, or a journal that could not be read. */
  onError?: (error: unknown, call?: DeviceCall) => void;
}

// These end an answer's way as an acknowledgement does: nobody will ever ask for it.
const final = new Set(["unknown_call", "not_found", "wrong_device"]);
// So long after `busy` an answer is sent again, in milliseconds.
const busyAfter = 1000;

/** Answers calls from a socket until `stop` is called. */
export class Device {
  readonly #socket: DeviceSocket;
  readonly #executor: DeviceExecutor;
  readonly #options: DeviceOptions;
  readonly #stops: (() => void)[];
  readonly #running = new Set<Promise<void>>();
  readonly #clock: Clock;
  readonly #timers = new Set<unknown>();
  #stopped = false;

  constructor(socket: DeviceSocket, executor: DeviceExecutor, options: DeviceOptions = {}) {
    this.#socket = socket;
    this.#executor = executor;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#stops = [socket.onFrame((frame) => this.#take(frame)), socket.onReady(() => this.#run(() => this.#resend()))];
  }

  /** Takes no further calls, and resolves when those in hand are done. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const stop of this.#stops.splice(0)) stop();
    for (const timer of this.#timers) this.#clock.clearTimeout(timer);
    await Promise.all(this.#running);
  }

  #take(frame: Frame): void {
    switch (frame.type) {
      case "tool_call":
      case "data_request":
      case "mutation":
        this.#run(() => this.#answer(frame));
        break;
      case "tool_result_ack":
        this.#run(async () => this.#executor.acknowledge(frame.id));
        break;
      case "error":
        if (frame.id === undefined) break;
        if (final.has(frame.code)) this.#run(async () => this.#executor.acknowledge(frame.id!));
        else if (frame.code === "busy") this.#later(frame.id);
        break;
    }
  }

  async #answer(call: DeviceCall): Promise<void> {
    this.#options.onCall?.(call);
    if (this.#options.acknowledgeStart && call.type === "tool_call") this.#socket.send({ type: "tool_ack", id: call.id });
    let answer: Answer;
    try {
      const done = await this.#executor.execute(call);
      answer = done.answer;
      this.#options.onAnswer?.(call, answer, done.repeated);
    } catch (error) {
      // The file failed, and nothing was journaled: the model is told, and a call that is sent again is tried again.
      this.#options.onError?.(error, call);
      answer = { error: error instanceof Error ? error.message : String(error) };
    }
    // Where the socket is gone the journal keeps the answer, and it is sent after the next hello.
    const traceparent = "traceparent" in call && call.traceparent ? { traceparent: call.traceparent } : {};
    this.#socket.send({ ...answer, ...traceparent, type: answerTo(call.type), id: call.id });
  }

  async #resend(only?: string): Promise<void> {
    for (const entry of await this.#executor.unacknowledged()) {
      if (only !== undefined && entry.id !== only) continue;
      if (!this.#socket.send({ ...entry.answer, type: answerTo(entry.call), id: entry.id })) return;
    }
  }

  #later(id: string): void {
    const timer = this.#clock.setTimeout(() => {
      this.#timers.delete(timer);
      this.#run(() => this.#resend(id));
    }, busyAfter);
    this.#timers.add(timer);
  }

  #run(work: () => Promise<void>): void {
    if (this.#stopped) return;
    const running: Promise<void> = work()
      .catch((error: unknown) => this.#options.onError?.(error))
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }
}

function answerTo(call: DeviceCall["type"]): "tool_result" | "data_response" {
  return call === "data_request" ? "data_response" : "tool_result";
}
