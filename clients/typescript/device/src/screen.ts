// What the command shows.
import type { Answer, AskResult, DeviceCall, Frame, Item, SocketState } from "@cairnhq/client";

/** Shows frames, calls and ends: for people, or as JSON, one a line. */
export class Screen {
  readonly #out: NodeJS.WritableStream;
  readonly #json: boolean;
  // Lines are typed, so there is a prompt, and what was typed ends a line.
  readonly #person: boolean;
  #mid = false;

  constructor(out: NodeJS.WritableStream, json: boolean, person: boolean) {
    this.#out = out;
    this.#json = json;
    this.#person = person;
  }

  prompt(): void {
    if (this.#person && !this.#json) this.#write("> ");
  }

  /** Somebody ended a line. */
  typed(): void {
    if (this.#person) this.#mid = false;
  }

  state(state: SocketState): void {
    if (this.#json) this.#line({ type: state });
  }

  did(call: DeviceCall, answer: Answer): void {
    if (this.#json) return this.#line({ type: "did", id: call.id, action: call.action, ...(call.table ? { table: call.table } : {}), answer });
    this.#fresh();
    this.#write(`  [${`${call.action} ${call.table ?? ""}`.trim()}] ${summary(answer)}\n`);
  }

  show(frame: Frame): void {
    if (this.#json) return this.#line(frame);
    if (frame.type === "stream_text") this.#write(frame.chunk);
    if (frame.type === "stream_block") {
      this.#fresh();
      this.#write(frame.block_type === "retry" ? "  [the model failed and begins this answer again]\n" : `  [${frame.block_type}] ${JSON.stringify(frame.data)}\n`);
    }
  }

  /** What a subscription brought. */
  item(item: Item): void {
    if (this.#json) return this.#line(item);
    this.#fresh();
    if (item.type === "event") this.#write(`  ${item.event.position} ${item.event.event_type} ${item.event.stream}/${item.event.seq}\n`);
    if (item.type === "reset") this.#write(`  [what follows begins anew after ${item.head}: ${item.reason}]\n`);
  }

  done(end: AskResult): void {
    if (this.#json) return; // the frames said it
    this.#fresh();
    if (end.error) this.#write(`  [failed] ${end.error.message}\n`);
  }

  failed(error: Error): void {
    if (this.#json) return this.#line({ type: "failed", message: error.message });
    this.#fresh();
    this.#write(`  [failed] ${error.message}\n`);
  }

  warn(text: string): void {
    process.stderr.write(`cairn-device: ${text}\n`);
  }

  #line(value: unknown): void {
    this.#write(`${JSON.stringify(value)}\n`);
  }

  #fresh(): void {
    if (this.#mid) this.#write("\n");
  }

  #write(text: string): void {
    if (text === "") return;
    this.#out.write(text);
    this.#mid = !text.endsWith("\n");
  }
}

// What a call did, in a line.
function summary(answer: Answer): string {
  const { error, row, rows, results, deleted, ok } = answer as Record<string, unknown>;
  if (typeof error === "string") return `failed: ${error}`;
  if (row === null) return "no such row";
  if (typeof row === "object") return JSON.stringify(Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null)));
  if (Array.isArray(rows)) return `${rows.length} rows`;
  if (Array.isArray(results)) return `${results.length} results`;
  if (deleted !== undefined) return `deleted: ${String(deleted)}`;
  return ok === true ? "ok" : JSON.stringify(answer);
}
