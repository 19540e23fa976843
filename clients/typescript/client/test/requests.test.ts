import { expect, it } from "vitest";
import { AskError, MemoryStorage, type ServerFrame } from "../src/index.js";
import { clientOf } from "./support/client.js";
import { Log } from "./support/log.js";
import { type Connection, Server } from "./support/server.js";
import { VirtualClock } from "./support/time.js";

function stage(seed = 1) {
  const clock = new VirtualClock(seed);
  const server = new Server(new Log(), clock);
  return { clock, server };
}

function answers(...frames: (Record<string, unknown> & { type: string })[]) {
  return (request: { type: string; request_id?: string }, connection: Connection) => {
    if (!request.request_id) return;
    for (const frame of frames) connection.say({ request_id: request.request_id, ...frame } as unknown as ServerFrame);
  };
}

const whole = [
  { type: "stream_start", session_id: "t", run_id: "r" },
  { type: "stream_text", chunk: "first é" },
  { type: "stream_block", block_type: "table", data: { rows: [] } },
  { type: "stream_text", chunk: "dropped" },
  { type: "stream_block", block_type: "retry", data: { keep: { text: 8, blocks: 1 } } },
  { type: "stream_text", chunk: " second" },
  { type: "stream_end", mutations: [{ table: "tasks", action: "insert", id: "x" }], position: "p" },
];

it("tells an answer until its end, and takes back what a retry takes back", async () => {
  const { clock, server } = stage();
  server.answer = answers(...whole);
  const client = clientOf(server);
  client.connect();
  const asked = client.ask({ message: "hello", sessionId: "t" });
  const result = await clock.until(asked.result);
  expect(result).toEqual({
    text: "first é second",
    blocks: [{ type: "table", data: { rows: [] } }],
    mutations: [{ table: "tasks", action: "insert", id: "x" }],
    sessionId: "t",
    runId: "r",
    position: "p",
  });
  const types: string[] = [];
  for await (const frame of asked) types.push(frame.type);
  expect(types).toEqual(whole.map(({ type }) => type));
  expect(client.positions.current).toBe("p");
  expect(await client.outbox.pending()).toEqual([]);
  await client.close();
});

it("asks again under the same id after every lost connection, until the end, and only then no more", async () => {
  const { clock, server } = stage();
  let times = 0;
  server.answer = (request, connection) => {
    if (request.type !== "home_request") return;
    times++;
    answers(...(times < 4 ? whole.slice(0, 2) : whole))(request, connection);
    if (times < 4) connection.die(1006);
  };
  const client = clientOf(server);
  client.connect();
  const result = await clock.until(client.ask({ message: "hello", requestId: "q" }).result);
  expect(result.text).toBe("first é second");
  server.current!.die(1006);
  await clock.pass(60_000);
  const asked = server.heard.filter((frame) => frame.type === "home_request");
  expect(asked.length).toBe(4);
  expect(new Set(asked.map((frame) => JSON.stringify(frame))).size).toBe(1);
  await client.close();
});

it("has what an earlier process asked, in its order and with its ids, before anything is sent", async () => {
  const { clock, server } = stage();
  const storage = new MemoryStorage();
  const first = clientOf(server, { storage });
  const lost = [first.ask({ message: "one" }), first.ask({ message: "two", scope: { type: "task" } })];
  await clock.pass(10);
  await first.close(); // it was never connected
  for (const asked of lost) await expect(asked.result).rejects.toThrow(/closed/);
  expect(server.heard).toEqual([]);

  server.answer = answers(...whole);
  const second = clientOf(server, { storage });
  const pending = await second.pending();
  expect(pending.map((asked) => asked.requestId)).toEqual(lost.map((asked) => asked.requestId));
  second.connect();
  for (const asked of pending) expect((await clock.until(asked.result)).text).toBe("first é second");
  expect(server.heard.filter((frame) => frame.type.endsWith("_request")).map((frame) => (frame as { message: string }).message)).toEqual(["one", "two"]);
  await clock.pass(1);
  expect(await second.outbox.pending()).toEqual([]);
  await second.close();
});

it("repeats what passes, and gives up what does not", async () => {
  const { clock, server } = stage();
  let times = 0;
  server.answer = (request, connection) => {
    if (request.type !== "home_request") return;
    if (++times < 3) answers({ type: "error", code: "rate_limited", message: "later", retry_after: 5 })(request, connection);
    else answers({ type: "error", code: "too_large", message: "too much" })(request, connection);
  };
  const client = clientOf(server);
  client.connect();
  const began = clock.now();
  await expect(clock.until(client.ask({ message: "hello" }).result)).rejects.toThrow(AskError);
  expect(clock.now() - began).toBeGreaterThan(10_000);
  expect(times).toBe(3);
  await clock.pass(1);
  expect(await client.outbox.pending()).toEqual([]);
  await client.close();
});

it("asks once under one id", async () => {
  const { clock, server } = stage();
  server.answer = answers(...whole);
  const client = clientOf(server);
  expect(client.ask({ message: "a", requestId: "q" })).toBe(client.ask({ message: "a", requestId: "q" }));
  client.connect();
  await clock.pass(1000);
  expect(server.heard.filter((frame) => frame.type === "home_request").length).toBe(1);
  await client.close();
});
