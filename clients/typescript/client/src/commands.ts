// Commands over HTTP that survive the process: kept first, then sent under the same Idempotency-Key until they have an answer.
import { jitter, sleep } from "./backoff.js";
import type { Clock } from "./clock.js";
import type { Outbox, Outgoing } from "./outbox.js";
import { ProblemError } from "./problem.js";

export interface CommandsOptions {
  url: string;
  perform: (request: Request) => Promise<Response>;
  outbox: Outbox;
  clock: Clock;
  newID: () => string;
  onPosition: (position: string | null) => void;
}

/** A command. */
export interface Command {
  method: "POST" | "PATCH" | "PUT" | "DELETE";
  /** Such as `/api/v1/threads`. */
  path: string;
  body?: unknown;
  /** Its Idempotency-Key; a new one is made where there is none. */
  key?: string;
}

export class Commands {
  readonly #o: CommandsOptions;
  readonly #running = new Map<string, Promise<unknown>>();
  readonly #stop = new AbortController();

  constructor(options: CommandsOptions) {
    this.#o = options;
  }

  /** Does it, however long that takes, and resolves with the answer's JSON. It rejects with a ProblemError where it is refused. */
  async send<T = unknown>(command: Command): Promise<T> {
    const id = command.key ?? this.#o.newID();
    const entry: Outgoing = { kind: "command", id, method: command.method, path: command.path, body: command.body };
    await this.#o.outbox.add(entry);
    return this.#run(entry) as Promise<T>;
  }

  /** Goes on with what an earlier process left. */
  async resume(): Promise<void> {
    for (const entry of await this.#o.outbox.pending()) {
      if (entry.kind === "command") this.#run(entry).catch(() => undefined);
    }
  }

  /** Sends nothing more; what has no answer stays in the outbox. */
  close(reason: Error): void {
    this.#stop.abort(reason);
  }

  #run(entry: Outgoing & { kind: "command" }): Promise<unknown> {
    const already = this.#running.get(entry.id);
    if (already) return already;
    const running = this.#until(entry).finally(() => this.#running.delete(entry.id));
    this.#running.set(entry.id, running);
    return running;
  }

  async #until(entry: Outgoing & { kind: "command" }): Promise<unknown> {
    const { signal } = this.#stop;
    for (let attempt = 0; ; attempt++) {
      signal.throwIfAborted();
      let wait = jitter(this.#o.clock, attempt, 500, 20_000);
      try {
        const response = await this.#o.perform(this.#request(entry, signal));
        if (response.ok) {
          this.#o.onPosition(response.headers.get("position"));
          const text = await response.text();
          await this.#o.outbox.remove(entry.id);
          return text === "" ? undefined : JSON.parse(text);
        }
        throw await ProblemError.of(response);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof ProblemError) {
          if (error.status === 401) throw error; // it stays: whoever logs in again has it done
          if (error.status < 500 && error.status !== 429) {
            await this.#o.outbox.remove(entry.id);
            throw error;
          }
          if (error.retryAfter !== undefined) wait = Math.max(wait, error.retryAfter * 1000);
        }
      }
      await sleep(this.#o.clock, wait, signal);
    }
  }

  #request(entry: Outgoing & { kind: "command" }, signal: AbortSignal): Request {
    const body = entry.body === undefined ? null : JSON.stringify(entry.body);
    return new Request(this.#o.url + entry.path, {
      method: entry.method,
      headers: { "idempotency-key": entry.id, ...(body === null ? {} : { "content-type": "application/json" }) },
      body,
      signal,
    });
  }
}
