import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { chain, digest, genesis, IntegrityError, type StreamEvent, verify } from "../src/index.js";

const vectors = JSON.parse(readFileSync(new URL("vectors/chain.json", import.meta.url), "utf8")) as {
  genesis: { stream: string; hash: string }[];
  streams: { name: string; events: StreamEvent[] }[];
};
const { subtle } = globalThis.crypto;

describe("the chain is the log's", () => {
  it("begins with the hash of the stream's id", async () => {
    for (const { stream, hash } of vectors.genesis) expect(await genesis(subtle, stream)).toBe(hash);
  });

  for (const { name, events } of vectors.streams) {
    it(`holds for ${name}`, async () => {
      let prev = await genesis(subtle, events[0]!.stream);
      for (const event of events) {
        expect(await chain(subtle, prev, event)).toBe(event.hash);
        const checked = await verify(subtle, prev, event);
        expect(checked.data).toEqual(event.data);
        expect(checked.actor).toEqual(event.actor);
        if (event.stored!.text !== undefined) expect(await digest(subtle, event.salt!, event.stored!.text)).toBe(event.seal_digest);
        prev = event.hash;
      }
    });

    it(`breaks at every change of ${name}`, async () => {
      let prev = await genesis(subtle, events[0]!.stream);
      for (const event of events) {
        for (const changed of changes(event)) {
          await expect(verify(subtle, prev, changed), JSON.stringify(changed).slice(0, 400)).rejects.toThrow(IntegrityError);
        }
        await expect(verify(subtle, await genesis(subtle, "another"), event)).rejects.toThrow(/hash/);
        prev = event.hash;
      }
    });
  }

  it("shows what was checked, not what stood beside it", async () => {
    const event = vectors.streams[0]!.events[1]!;
    const prev = vectors.streams[0]!.events[0]!.hash;
    const told = { ...event, data: { run_id: "another", content: { text: "forged" } }, actor: { kind: "system" } };
    expect(await verify(subtle, prev, told)).toEqual(event);
  });
});

function* changes(event: StreamEvent): Generator<StreamEvent> {
  const stored = event.stored!;
  yield { ...event, stream: `${event.stream}x` };
  yield { ...event, seq: event.seq + 1 };
  yield { ...event, id: `${event.id.slice(0, -1)}!` };
  yield { ...event, event_type: `${event.event_type}x` };
  yield { ...event, schema: event.schema + 1 };
  yield { ...event, hash: flipped(event.hash) };
  yield { ...event, at: "2020-01-01T00:00:00.000000Z" };
  yield { ...event, stored: { ...stored, data: `${stored.data} ` } };
  yield { ...event, stored: { ...stored, actor: `${stored.actor} ` } };
  if (event.seal_digest) yield { ...event, seal_digest: flipped(event.seal_digest) };
  if (event.salt) yield { ...event, salt: flipped(event.salt) };
  if (stored.text !== undefined) {
    yield { ...event, stored: { ...stored, text: `${stored.text} ` } };
    const { seal_digest, ...rest } = event;
    yield rest;
    const { salt, ...without } = event;
    yield without;
  } else {
    yield { ...event, stored: { ...stored, text: '{"text":"put in"}' } };
  }
  const { stored: gone, ...bare } = event;
  yield bare;
}

function flipped(hex: string): string {
  return (hex[0] === "0" ? "1" : "0") + hex.slice(1);
}
