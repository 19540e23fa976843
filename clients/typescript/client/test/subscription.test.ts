import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IntegrityError, MemoryStorage, type StreamEvent, SubscribeError, type Want } from "../src/index.js";
import { clientOf } from "./support/client.js";
import { Log } from "./support/log.js";
import { Server } from "./support/server.js";
import { VirtualClock } from "./support/time.js";

function stage(seed = 1) {
  const clock = new VirtualClock(seed);
  const log = new Log();
  const server = new Server(log, clock);
  return { clock, log, server };
}

const odds = fc.constantFrom(0, 0.02, 0.2);

describe("a subscription", () => {
  it("brings every event exactly once and in order, whatever the network does and however often the process dies", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          seed: fc.integer({ min: 1, max: 1 << 30 }),
          faults: fc.record({ cut: odds, hole: odds, twice: odds, busy: odds }),
          batch: fc.integer({ min: 1, max: 20 }),
          maxQueued: fc.constantFrom(1, 3, 50),
          whole: fc.boolean(),
          verify: fc.constantFrom("chain" as const, "order" as const),
          restarts: fc.integer({ min: 0, max: 3 }),
          events: fc.integer({ min: 1, max: 120 }),
        }),
        async ({ seed, faults, batch, maxQueued, whole, verify, restarts, events }) => {
          const { clock, log, server } = stage(seed);
          server.batch = batch;
          const streams = ["thread-a", "thread-b", "thread-c"];
          const write = (n: number) => {
            for (let i = 0; i < n; i++) log.append(streams[Math.floor(clock.random() * 3)]!, "thread.titled", { n: i }, { text: `t${i}` });
          };
          write(Math.floor(events / 2));
          const storage = new MemoryStorage();
          const want: Want = { ...(whole ? { scope: "user-1" } : { stream: "thread-a" }), after: 0, name: "n", verify };
          const got: StreamEvent[] = [];
          for (let life = 0; life <= restarts; life++) {
            server.faults = faults;
            const client = clientOf(server, { storage, maxQueued });
            client.connect();
            if (life > 0) write(Math.ceil(events / 2 / restarts));
            if (restarts === 0) write(Math.ceil(events / 2));
            const goal = life === restarts ? Number.POSITIVE_INFINITY : Math.floor(clock.random() * events);
            const all = () => (whole ? log.events : log.of("thread-a"));
            const reading = (async () => {
              const subscription = client.subscribe(want);
              let n = 0;
              if (got.length === all().length) return;
              for await (const event of subscription.events()) {
                got.push(event);
                if (got.length === all().length || ++n > goal) {
                  await subscription.commit();
                  break;
                }
              }
            })();
            await clock.until(reading);
            await client.close();
          }
          const all = whole ? log.events : log.of("thread-a");
          const bare = (event: StreamEvent) => `${event.stream} ${event.seq} ${event.hash} ${JSON.stringify(event.data)}`;
          expect(got.map(bare)).toEqual(all.slice(0, got.length).map(bare));
          expect(got.length).toBe(all.length);
        },
      ),
      { numRuns: 50 },
    );
  }, 120_000);

  it("goes on where the item in hand was, if the process died with it", async () => {
    const { clock, log, server } = stage();
    for (let i = 0; i < 5; i++) log.append("thread-a");
    const storage = new MemoryStorage();
    const lives: number[][] = [];
    for (let life = 0; life < 3; life++) {
      const client = clientOf(server, { storage });
      client.connect();
      const seen: number[] = [];
      lives.push(seen);
      const reading = (async () => {
        for await (const event of client.subscribe({ stream: "thread-a", after: 0, name: "n" }).events()) {
          seen.push(event.seq);
          if (seen.length === 2) throw new Error("died");
        }
      })().catch(() => undefined);
      await clock.until(reading);
      await client.close();
    }
    expect(lives).toEqual([[1, 2], [2, 3], [3, 4]]);
  });

  it("from now on has what is written while nobody is connected, also where nothing came before", async () => {
    const { clock, log, server } = stage();
    log.append("thread-a");
    const storage = new MemoryStorage();
    const first = clientOf(server, { storage });
    first.connect();
    first.subscribe({ stream: "thread-a", name: "n" });
    await clock.pass(5000);
    await first.close();
    log.append("thread-a");
    const second = clientOf(server, { storage });
    second.connect();
    const iterator = second.subscribe({ stream: "thread-a", name: "n" }).events();
    expect((await clock.until(iterator.next())).value?.seq).toBe(2);
    await second.close();
  });

  it("rejects with an IntegrityError where an event was changed, and takes none of it", async () => {
    for (const change of [
      (event: StreamEvent) => (event.stored!.data = '{"n":666}'),
      (event: StreamEvent) => (event.stored!.text = '{"text":"forged"}'),
      (event: StreamEvent) => (event.hash = "00".repeat(32)),
      (event: StreamEvent) => delete event.stored,
    ]) {
      const { clock, log, server } = stage();
      for (let i = 0; i < 6; i++) log.append("thread-a", "thread.titled", { n: i }, { text: "t" });
      change(log.events[3]!);
      const client = clientOf(server);
      client.connect();
      const seen: number[] = [];
      const reading = (async () => {
        for await (const event of client.subscribe({ stream: "thread-a", after: 0 }).events()) seen.push(event.seq);
      })();
      await expect(clock.until(reading)).rejects.toThrow(IntegrityError);
      expect(seen.length).toBeLessThanOrEqual(3);
      await client.close();
    }
  });

  it("surfaces a reset, and goes on after the head when the read model was loaded", async () => {
    const { clock, log, server } = stage();
    for (let i = 0; i < 4; i++) log.append("thread-a");
    const client = clientOf(server);
    client.connect();
    const iterator = client.subscribe({ stream: "thread-a", after: { after: 2, hash: "ab".repeat(32) } })[Symbol.asyncIterator]();
    expect((await clock.until(iterator.next())).value).toMatchObject({ type: "reset", reason: "other_hash", head: 4, headHash: log.events[3]!.hash });
    const next = iterator.next(); // it was loaded
    await clock.pass(1000);
    log.append("thread-a");
    server.publish();
    expect((await clock.until(next)).value).toMatchObject({ type: "event", event: { seq: 5 } });
    const subscribes = server.heard.filter((frame) => frame.type === "subscribe");
    expect(subscribes.at(-1)).toMatchObject({ after: 4, after_hash: log.events[3]!.hash });
    await client.close();
  });

  it("ends where access was taken away", async () => {
    const { clock, log, server } = stage();
    log.append("thread-a");
    const client = clientOf(server);
    client.connect();
    const subscription = client.subscribe({ stream: "thread-a" });
    const iterator = subscription[Symbol.asyncIterator]();
    const first = iterator.next();
    await clock.pass(1000);
    const id = [...server.current!.follows.keys()][0]!;
    server.current!.say({ type: "reset", subscription: id, reason: "access", head: 1 });
    expect((await clock.until(first)).value).toMatchObject({ type: "reset", reason: "access" });
    expect((await clock.until(iterator.next())).done).toBe(true);
    await client.close();
  });

  it("moves a filtered cursor past what it is not sent", async () => {
    const { clock, log, server } = stage();
    server.batch = 5;
    for (let i = 1; i <= 43; i++) log.append("thread-a", i % 20 === 0 ? "thread.run_started" : "thread.titled");
    const storage = new MemoryStorage();
    const client = clientOf(server, { storage });
    client.connect();
    const subscription = client.subscribe({ scope: "user-1", filter: { types: ["thread.run_started"] }, after: 0, name: "n" });
    const iterator = subscription.events();
    const seen = [(await clock.until(iterator.next())).value?.position, (await clock.until(iterator.next())).value?.position];
    void iterator.next();
    await clock.pass(60_000);
    expect(seen).toEqual([20, 40]);
    expect(subscription.cursor?.after).toBe(43);
    await client.close();
  });

  it("keeps no more than its bound for a consumer that is behind", async () => {
    const { clock, log, server } = stage();
    server.batch = 10;
    for (let i = 0; i < 500; i++) log.append("thread-a");
    const client = clientOf(server, { maxQueued: 20 });
    client.connect();
    const iterator = client.subscribe({ stream: "thread-a", after: 0 }).events();
    expect((await clock.until(iterator.next())).value?.seq).toBe(1);
    await clock.pass(600_000);
    expect(server.current!.follows.size).toBe(0); // nothing is sent to it
    const rest: number[] = [];
    for (let i = 0; i < 499; i++) rest.push((await clock.until(iterator.next())).value!.seq);
    expect(rest).toEqual(Array.from({ length: 499 }, (_, i) => i + 2));
    await client.close();
  });

  it("rejects where it may not be followed", async () => {
    const { clock, server } = stage();
    const client = clientOf(server);
    client.connect();
    const iterator = client.subscribe({ stream: "thread-x", after: 0 }).events();
    const next = iterator.next();
    await clock.pass(1000);
    const subscribe = server.heard.find((frame) => frame.type === "subscribe")!;
    server.current!.say({ type: "error", id: (subscribe as { id: string }).id, code: "not_found", message: "no such stream" });
    await expect(clock.until(next)).rejects.toThrow(SubscribeError);
    await client.close();
  });
});
