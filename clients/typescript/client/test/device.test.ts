import fc from "fast-check";
import { expect, it } from "vitest";
import type { Answer, DeviceCall, DeviceExecutor, JournalEntry } from "../src/index.js";
import { clientOf } from "./support/client.js";
import { Log } from "./support/log.js";
import { Server } from "./support/server.js";
import { VirtualClock } from "./support/time.js";

/** A device whose whole database is a counter; it outlives the process. */
class Counter implements DeviceExecutor {
  done: string[] = [];
  readonly journal = new Map<string, JournalEntry & { acknowledged: boolean }>();
  fail = false;

  async execute(call: DeviceCall): Promise<{ answer: Answer; repeated: boolean }> {
    await Promise.resolve();
    const known = this.journal.get(call.id);
    if (known) return { answer: known.answer, repeated: true };
    if (this.fail) throw new Error("the file failed");
    this.done.push(call.id);
    const answer: Answer = call.type === "data_request" ? { rows: [] } : { row: { id: `row-${this.done.length}` } };
    this.journal.set(call.id, { id: call.id, call: call.type, answer, acknowledged: false });
    return { answer, repeated: false };
  }

  acknowledge(id: string): void {
    const entry = this.journal.get(id);
    if (entry) entry.acknowledged = true;
  }

  unacknowledged(): JournalEntry[] {
    return [...this.journal.values()].filter((entry) => !entry.acknowledged).map(({ id, call, answer }) => ({ id, call, answer }));
  }
}

const insert = (id: string) => ({ type: "tool_call", id, action: "insert", table: "tasks", data: { title: "once" }, run_id: "r", seq: 1, deadline: "2999-01-01T00:00:00Z" }) as const;

function stage(seed = 1) {
  const clock = new VirtualClock(seed);
  const server = new Server(new Log(), clock);
  const executor = new Counter();
  const client = clientOf(server, { device: { executor } });
  client.connect();
  const results = () => server.heard.filter((frame) => frame.type === "tool_result" || frame.type === "data_response");
  return { clock, server, executor, client, results };
}

it("says that it keeps a journal, answers each kind of call by its frame, and sends again what was not acknowledged", async () => {
  const { clock, server, executor, client, results } = stage();
  await clock.pass(1000);
  expect(server.heard[0]).toMatchObject({ journal: true });
  server.current!.say({ ...insert("c1"), traceparent: "00-1-2-01" });
  server.current!.say({ type: "data_request", id: "c2", action: "select", table: "tasks", deadline: "2999-01-01T00:00:00Z" });
  server.current!.say({ type: "mutation", id: "c3", action: "delete", table: "tasks", data: { id: "x" }, deadline: "2999-01-01T00:00:00Z" });
  await clock.pass(100);
  expect(results()).toEqual([
    { type: "tool_result", id: "c1", row: { id: "row-1" }, traceparent: "00-1-2-01" },
    { type: "data_response", id: "c2", rows: [] },
    { type: "tool_result", id: "c3", row: { id: "row-3" } },
  ]);
  server.current!.say({ type: "tool_result_ack", id: "c1" });
  await clock.pass(10);
  server.current!.die(1006);
  await clock.pass(2000);
  expect(results().slice(3)).toEqual([
    { type: "data_response", id: "c2", rows: [] },
    { type: "tool_result", id: "c3", row: { id: "row-3" } },
  ]);
  server.current!.say({ type: "error", id: "c2", code: "unknown_call", message: "" });
  server.current!.say({ type: "error", id: "c3", code: "busy", message: "" });
  await clock.pass(10);
  expect(executor.unacknowledged().map(({ id }) => id)).toEqual(["c3"]);
  await clock.pass(1500);
  expect(results().slice(5)).toEqual([{ type: "tool_result", id: "c3", row: { id: "row-3" } }]);
  await client.close();
});

it("tells the model in words where its file fails, and does it when it is asked again", async () => {
  const { clock, server, executor, client, results } = stage();
  await clock.pass(1000);
  executor.fail = true;
  server.current!.say(insert("c1"));
  await clock.pass(100);
  expect(results().at(-1)).toEqual({ type: "tool_result", id: "c1", error: "the file failed" });
  executor.fail = false;
  server.current!.say(insert("c1"));
  await clock.pass(100);
  expect(results().at(-1)).toMatchObject({ row: { id: "row-1" } });
  await client.close();
});

it("does each call once and has its answer recorded, wherever connections and processes end", async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 1 << 30 }), fc.integer({ min: 1, max: 8 }), async (seed, calls) => {
      const clock = new VirtualClock(seed);
      const server = new Server(new Log(), clock);
      server.faults = { cut: 0.2 };
      const executor = new Counter();
      const open = new Set(Array.from({ length: calls }, (_, i) => `c${i}`));
      const recorded = new Map<string, string>();
      server.answer = (frame, connection) => {
        if (frame.type !== "tool_result") return;
        const { id } = frame;
        const before = recorded.get(id);
        if (before !== undefined && before !== JSON.stringify(frame)) throw new Error(`two answers to ${id}`);
        recorded.set(id, JSON.stringify(frame));
        open.delete(id);
        connection.say({ type: "tool_result_ack", id });
      };
      for (let life = 0; life < 50 && (open.size > 0 || executor.unacknowledged().length > 0); life++) {
        const client = clientOf(server, { device: { executor } });
        client.connect();
        await clock.pass(3000);
        for (const id of open) server.current?.say(insert(id));
        await clock.pass(clock.random() * 100);
        await client.close();
      }
      expect(executor.done.length).toBe(calls);
      expect(recorded.size).toBe(calls);
      expect(executor.unacknowledged()).toEqual([]);
    }),
    { numRuns: 30 },
  );
});

it("a client without a database of its own says so, and lets nobody wait", async () => {
  const clock = new VirtualClock();
  const server = new Server(new Log(), clock);
  const client = clientOf(server);
  client.connect();
  await clock.pass(1000);
  server.current!.say(insert("c1"));
  await clock.pass(100);
  expect(server.heard.at(-1)).toMatchObject({ type: "tool_result", id: "c1", error: expect.stringContaining("no data") as string });
  await client.close();
});
