// A log of streams in one scope, chained as the backend chains it, and WebCrypto that needs no time.
import { createHash, createHmac } from "node:crypto";
import type { StreamEvent, Subtle } from "../../src/index.js";

/** What the client asks of WebCrypto, done at once: virtual time does not wait for other threads. */
export const subtle: Subtle = {
  digest: async (_: unknown, data: BufferSource) => copy(createHash("sha256").update(data as Uint8Array).digest()),
  importKey: async (_: unknown, key: unknown) => key as CryptoKey,
  sign: async (_: unknown, key: CryptoKey, data: BufferSource) =>
    copy(createHmac("sha256", key as unknown as Uint8Array).update(data as Uint8Array).digest()),
} as unknown as Subtle;

function copy(buffer: Buffer): ArrayBuffer {
  return new Uint8Array(buffer).buffer;
}

export class Log {
  readonly events: StreamEvent[] = [];
  readonly #heads = new Map<string, { seq: number; hash: Buffer }>();

  append(stream: string, type = "thread.titled", data: Record<string, unknown> = {}, content?: unknown): StreamEvent {
    const before = this.#heads.get(stream) ?? { seq: 0, hash: createHash("sha256").update(stream).digest() };
    const [seq, position] = [before.seq + 1, this.events.length + 1];
    const id = `e-${stream}-${seq}`;
    const stored = { data: JSON.stringify(data), actor: '{"kind":"user"}', at: new Date(1.8e12 + position).toISOString() };
    const salt = createHash("sha256").update(id).digest();
    const text = content === undefined ? undefined : JSON.stringify(content);
    const digest = text === undefined ? Buffer.alloc(0) : createHmac("sha256", salt).update(text).digest();
    const hash = createHash("sha256");
    for (const part of [before.hash, stream, `${seq}`, id, type, "1", stored.at, stored.actor, stored.data, digest]) {
      const bytes = Buffer.from(part as string);
      const length = Buffer.alloc(8);
      length.writeBigUInt64BE(BigInt(bytes.length));
      hash.update(length).update(bytes);
    }
    const sum = hash.digest();
    this.#heads.set(stream, { seq, hash: sum });
    const event: StreamEvent = {
      id,
      stream,
      seq,
      position,
      event_type: type,
      schema: 1,
      at: stored.at,
      actor: { kind: "user" },
      data: content === undefined ? data : { ...data, content },
      hash: sum.toString("hex"),
      stored: text === undefined ? stored : { ...stored, text },
      ...(text === undefined ? {} : { seal_digest: digest.toString("hex"), salt: salt.toString("hex") }),
    };
    this.events.push(event);
    return event;
  }

  of(stream: string): StreamEvent[] {
    return this.events.filter((event) => event.stream === stream);
  }
}
