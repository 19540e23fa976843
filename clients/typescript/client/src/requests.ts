// Requests on the socket: a message goes up, its answer comes down, and it is asked again under the same id until its end.
import type { FloatingRequest, Frame, HomeRequest, Mutation } from "./frames.js";

/** A person's message. */
export interface Ask {
  message: string;
  /** The same id with the same message is the same request; a new one is made where there is none. */
  requestId?: string;
  /** The thread; absent: a new one. */
  sessionId?: string;
  onBusy?: "queue" | "refuse" | "interrupt";
  /** Of a new thread. */
  history?: { role: "user" | "assistant"; content: string }[];
  /** What it is about: then it is a `floating_request`. */
  scope?: { type: "task" | "project" | "note" | "checkpoint"; id?: string };
  traceparent?: string;
}

export interface Block {
  type: string;
  data: unknown;
}

/** A request's end. */
export interface AskResult {
  text: string;
  blocks: Block[];
  mutations: Mutation[];
  domain?: string;
  sessionId?: string;
  runId?: string;
  /** A `min_position` for reads that must show the run's end; this client's reads have it by themselves. */
  position?: string;
  error?: { code: string; message: string };
}

/** Refused, or not to be asked at all. */
export class AskError extends Error {
  override readonly name = "AskError";
  constructor(
    readonly code: string,
    message: string,
    readonly retryAfter?: number,
  ) {
    super(`${message} (${code})`);
  }
}

/** The frame that asks. */
export function frameOf(ask: Ask & { requestId: string }): HomeRequest | FloatingRequest {
  const fields = {
    request_id: ask.requestId,
    message: ask.message,
    ...(ask.sessionId === undefined ? {} : { session_id: ask.sessionId }),
    ...(ask.onBusy === undefined ? {} : { on_busy: ask.onBusy }),
    ...(ask.history === undefined ? {} : { conversation_history: ask.history }),
    ...(ask.traceparent === undefined ? {} : { traceparent: ask.traceparent }),
  };
  return ask.scope ? { type: "floating_request", ...fields, scope: ask.scope } : { type: "home_request", ...fields };
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A request until its end. It may be iterated once, for the frames as they come; `result` is its end. */
export class Asked implements AsyncIterable<Frame> {
  readonly requestId: string;
  /** Its end; a run that failed has `error` in it. It rejects where the request was refused. */
  readonly result: Promise<AskResult>;
  #resolve!: (result: AskResult) => void;
  #reject!: (error: Error) => void;
  #now: AskResult = { text: "", blocks: [], mutations: [] };
  #frames: Frame[] = [];
  #wake: (() => void) | undefined;
  #ended = false;
  #failure: Error | undefined;

  constructor(requestId: string) {
    this.requestId = requestId;
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.result.catch(() => undefined); // who iterates need not look at it
  }

  /** What there is of the answer so far. */
  get current(): Readonly<AskResult> {
    return this.#now;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Frame, void, undefined> {
    for (;;) {
      const frame = this.#frames.shift();
      if (frame) yield frame;
      else if (this.#failure) throw this.#failure;
      else if (this.#ended) return;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }

  /** Folds a frame in, and says whether it was the last. */
  take(frame: Frame): boolean {
    const now = this.#now;
    switch (frame.type) {
      case "stream_start":
        // Also after a reconnect: it is told from the start.
        this.#now = { ...now, text: "", blocks: [], ...(frame.session_id ? { sessionId: frame.session_id } : {}), ...(frame.run_id ? { runId: frame.run_id } : {}) };
        break;
      case "floating_domain":
        now.domain = frame.domain;
        break;
      case "stream_text":
        now.text += frame.chunk;
        break;
      case "stream_block":
        if (frame.block_type === "retry") this.#drop(frame.data);
        else now.blocks.push({ type: frame.block_type, data: frame.data });
        break;
      case "stream_end":
        now.mutations = frame.mutations;
        if (frame.position) now.position = frame.position;
        if (frame.error) now.error = frame.error;
        this.#ended = true;
        this.#resolve(now);
        break;
      case "error":
        this.fail(new AskError(frame.code, frame.message, frame.retry_after));
        return true;
      default:
        return false;
    }
    this.#frames.push(frame);
    this.#wake?.();
    return this.#ended;
  }

  fail(error: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#failure = error;
    this.#reject(error);
    this.#wake?.();
  }

  // The model's turn broke off and is made again: what came after so many bytes and blocks is taken back.
  #drop(data: unknown): void {
    const keep = (data as { keep?: { text?: number; blocks?: number } } | null)?.keep;
    if (!keep) return;
    this.#now.text = decoder.decode(encoder.encode(this.#now.text).subarray(0, keep.text ?? 0));
    this.#now.blocks = this.#now.blocks.slice(0, keep.blocks ?? 0);
  }
}
