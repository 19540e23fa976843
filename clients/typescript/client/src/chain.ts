// The hash chain of a stream, and the digest of sealed content: what a client checks for itself.
//
// `hash` is SHA-256 over the previous hash of the stream, stream, version, id, type, schema, decided_at, actor, the clear data's
// bytes and seal_digest, each preceded by its length as 8 bytes big-endian (numbers as decimal text, a missing digest as length
// 0); before version 1 it is SHA-256 of the stream id. `seal_digest` is HMAC-SHA-256(salt, text).
import type { Actor, StreamEvent } from "./frames.js";

/** The part of WebCrypto that is used: `crypto.subtle` in browsers and Node. */
export type Subtle = Pick<SubtleCrypto, "digest" | "importKey" | "sign">;

/** An event is not what the log says it is: it was changed, or others are missing before it. */
export class IntegrityError extends Error {
  override readonly name = "IntegrityError";
  constructor(
    readonly event: Pick<StreamEvent, "stream" | "seq">,
    readonly fault: "hash" | "seal_digest" | "stored" | "order",
  ) {
    super(`event ${event.seq} of ${event.stream} fails its check: ${fault}`);
  }
}

const encoder = new TextEncoder();

/** What stands before a stream's version 1, in hex. */
export async function genesis(subtle: Subtle, stream: string): Promise<string> {
  return hex(new Uint8Array(await subtle.digest("SHA-256", encoder.encode(stream))));
}

/** The hash of an event after prev (hex), in hex. It needs the event's `stored` parts. */
export async function chain(subtle: Subtle, prev: string, event: StreamEvent): Promise<string> {
  const { stored } = event;
  if (!stored) throw new IntegrityError(event, "stored");
  const parts = [
    unhex(prev),
    ...[event.stream, String(event.seq), event.id, event.event_type, String(event.schema), stored.at, stored.actor, stored.data].map((part) =>
      encoder.encode(part),
    ),
    unhex(event.seal_digest ?? ""),
  ];
  const bytes = new Uint8Array(parts.reduce((size, part) => size + 8 + part.length, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const part of parts) {
    view.setBigUint64(at, BigInt(part.length));
    bytes.set(part, at + 8);
    at += 8 + part.length;
  }
  return hex(new Uint8Array(await subtle.digest("SHA-256", bytes)));
}

/** The digest of a text under the salt of its blob (hex), in hex. */
export async function digest(subtle: Subtle, salt: string, text: string): Promise<string> {
  const key = await subtle.importKey("raw", unhex(salt), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return hex(new Uint8Array(await subtle.sign("HMAC", key, encoder.encode(text))));
}

/**
 * Checks one event: its content against its digest, and its hash against prev, where that is known. Content that was erased has no
 * `text`; the chain holds all the same. The answer says what was checked: `data` and `actor` are read from the parts that the hash
 * covers.
 */
export async function verify(subtle: Subtle, prev: string | undefined, event: StreamEvent): Promise<StreamEvent> {
  const { stored } = event;
  if (!stored || stored.at !== event.at) throw new IntegrityError(event, "stored");
  if (stored.text !== undefined) {
    const want = event.seal_digest;
    if (!want || !event.salt || (await digest(subtle, event.salt, stored.text)) !== want) throw new IntegrityError(event, "seal_digest");
  }
  if (prev !== undefined && (await chain(subtle, prev, event)) !== event.hash) throw new IntegrityError(event, "hash");
  const data = objectOf(event, stored.data);
  if (stored.text !== undefined) data.content = parsed(event, stored.text);
  return { ...event, data, actor: objectOf(event, stored.actor) as unknown as Actor };
}

function objectOf(event: StreamEvent, text: string): Record<string, unknown> {
  const value = text === "" ? {} : parsed(event, text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new IntegrityError(event, "stored");
  return value as Record<string, unknown>;
}

function parsed(event: StreamEvent, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new IntegrityError(event, "stored");
  }
}

export function hex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}

export function unhex(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}
