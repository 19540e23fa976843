import { expect, it } from "vitest";
import { provisionalText, rowOf, shownRows, type Timeline } from "../src/index.js";
import { clientOf } from "./support/client.js";
import { Log } from "./support/log.js";
import { Server } from "./support/server.js";
import { VirtualClock } from "./support/time.js";

function stage() {
  const clock = new VirtualClock();
  const log = new Log();
  const server = new Server(log, clock);
  const queries: string[] = [];
  const client = clientOf(server, {
    fetch: async (request) => {
      const url = new URL(request.url);
      if (url.pathname === "/api/v1/ws/tickets") return Response.json({ ticket: "t", expires_at: "" }, { status: 201 });
      queries.push(url.search);
      const [direction, seq, limit] = [url.searchParams.get("direction"), Number(url.searchParams.get("seq")), Number(url.searchParams.get("limit"))];
      const rows = log.of("thread-t").map((event) => {
        const { unformatted, ...row } = rowOf(event);
        return unformatted && row.kind === "assistant" ? { ...row, item: { ...row.item, text: "formatted" } } : row;
      });
      const part = direction === "tail" ? rows.slice(-limit) : direction === "before" ? rows.filter((row) => row.seq < seq).slice(-limit) : rows.filter((row) => row.seq > seq).slice(0, limit);
      const max = rows.at(-1)?.seq ?? 0;
      return Response.json({
        direction,
        start_seq: part[0]?.seq ?? null,
        end_seq: part.at(-1)?.seq ?? null,
        has_older: (part[0]?.seq ?? 1) > 1,
        has_newer: false,
        window: { min_seq: 1, max_seq: max, next_seq: max + 1 },
        entries: part,
      });
    },
  });
  return { clock, log, server, client, queries };
}

it("loads the newest rows, follows from there without a hole, merges what streams, and loads older rows when asked", async () => {
  const { clock, log, server, client } = stage();
  for (let i = 0; i < 30; i++) log.append("thread-t", "thread.titled", {}, { text: `${i}` });
  client.connect();
  const follower = client.timeline("t", { limit: 10 });
  const states: Timeline[] = [];
  const following = (async () => {
    for await (const state of follower) states.push(state);
  })();
  await clock.pass(1000);
  expect(follower.state.rows.map((row) => row.seq)).toEqual([21, 22, 23, 24, 25, 26, 27, 28, 29, 30]);
  expect(server.heard.find((frame) => frame.type === "subscribe")).toMatchObject({ stream: "thread-t", after: 30, after_hash: log.events[29]!.hash });

  const id = [...server.current!.follows.keys()][0]!;
  server.current!.say({ type: "live", subscription: id, run_id: "r", turn: 1, attempt: 1, n: 1, kind: "text", data: { text: "half" }, offset: 0 });
  await clock.pass(10);
  expect(provisionalText(follower.state.provisional.r!)).toBe("half");

  log.append("thread-t", "thread.turn_completed", { run_id: "r", turn: 1, attempt: 1, agent: "a", model: "m", finish_reason: "stop" }, { text: '{"type":"text","content":"half an answer"}' });
  server.publish();
  await clock.pass(1000);
  expect(follower.state.provisional).toEqual({});
  expect(follower.state.rows.at(-1)).toMatchObject({ seq: 31, kind: "assistant", item: { text: "formatted" } });
  expect(follower.state.rows.at(-1)).not.toHaveProperty("unformatted");

  expect(follower.hasOlder).toBe(true);
  await follower.older();
  await follower.older();
  expect(follower.hasOlder).toBe(false);
  expect(shownRows(follower.state).map((row) => row.seq)).toEqual(Array.from({ length: 31 }, (_, i) => i + 1));
  await clock.pass(1);
  expect(states.at(-1)).toBe(follower.state);
  await client.close();
  await clock.until(following);
});

it("loads the newest rows again after a reset", async () => {
  const { clock, log, server, client, queries } = stage();
  for (let i = 0; i < 5; i++) log.append("thread-t");
  client.connect();
  const follower = client.timeline("t", { limit: 10 });
  const following = (async () => {
    for await (const state of follower) void state;
  })();
  await clock.pass(1000);
  const [id] = [...server.current!.follows.keys()];
  log.append("thread-t");
  server.current!.follows.delete(id!);
  server.current!.say({ type: "reset", subscription: id!, reason: "pruned", head: 6, head_hash: log.events[5]!.hash });
  await clock.pass(1000);
  expect(queries.filter((query) => query.includes("tail")).length).toBe(2);
  expect(follower.state.rows.map((row) => row.seq)).toEqual([1, 2, 3, 4, 5, 6]);
  log.append("thread-t");
  server.publish();
  await clock.pass(1000);
  expect(follower.state.rows.at(-1)?.seq).toBe(7);
  await client.close();
  await clock.until(following);
});
