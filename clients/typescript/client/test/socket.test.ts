import { expect, it } from "vitest";
import { clientOf } from "./support/client.js";
import { Log } from "./support/log.js";
import { Server } from "./support/server.js";
import { idle, VirtualClock } from "./support/time.js";
import type { SocketState } from "../src/index.js";

function stage(seed = 1) {
  const clock = new VirtualClock(seed);
  const server = new Server(new Log(), clock);
  const client = clientOf(server);
  const states: SocketState[] = [];
  client.socket.onState((state) => states.push(state));
  return { clock, server, client, states };
}

it("introduces itself first, and is connected when it is greeted", async () => {
  const { clock, server, client, states } = stage();
  client.connect();
  await clock.pass(1000);
  expect(server.heard[0]).toMatchObject({ type: "device_hello", protocol: 3, device_id: "d1", batch: true });
  expect(server.heard[0]).not.toHaveProperty("journal");
  expect(states).toEqual(["connecting", "connected"]);
  await client.close();
  expect(states.at(-1)).toBe("disconnected");
});

it("comes back with full jitter between its bounds, further apart each time", async () => {
  const firsts: number[] = [];
  for (let seed = 1; seed <= 8; seed++) {
    const { clock, server, client } = stage(seed);
    server.refuse = 1006;
    client.connect();
    await clock.pass(300_000);
    const waits = clock.waits.filter((ms) => ms >= 500 && ms !== 20_000);
    expect(waits.length).toBeGreaterThan(12);
    waits.forEach((ms, i) => {
      expect(ms).toBeGreaterThanOrEqual(500);
      expect(ms).toBeLessThanOrEqual(Math.min(20_000, 500 * 2 ** (i + 1)));
    });
    firsts.push(waits[0]!);
    expect(Math.max(...waits)).toBeGreaterThan(10_000);
    await client.close();
  }
  expect(new Set(firsts.map((ms) => Math.round(ms / 50))).size).toBeGreaterThan(3);
});

it("comes back when the server said to, not before and not at another time", async () => {
  const { clock, server, client } = stage();
  client.connect();
  await clock.pass(1000);
  const first = server.current!;
  first.say({ type: "reconnect", after_ms: 7321, reason: "restart" });
  first.die(1012, "restart");
  await clock.pass(7320);
  expect(server.connections.length).toBe(1);
  await clock.pass(1000);
  expect(server.connections.length).toBe(2);
  expect(client.socket.state).toBe("connected");
  // The word counted for that once.
  server.current!.die(1006);
  await clock.pass(1001);
  expect(server.connections.length).toBe(3);
  await client.close();
});

it("ends the connection itself where a server that said reconnect does not", async () => {
  const { clock, server, client } = stage();
  client.connect();
  await clock.pass(1000);
  server.current!.say({ type: "reconnect", after_ms: 100, reason: "restart" });
  await clock.pass(12_000);
  expect(server.connections.length).toBe(2);
  await client.close();
});

it("takes silence for death, and a ping for life", async () => {
  const { clock, server, client } = stage();
  client.connect();
  await clock.pass(1000);
  for (let i = 0; i < 10; i++) {
    await clock.pass(30_000);
    server.current!.say({ type: "ping" });
  }
  expect(server.connections.length).toBe(1);
  await idle();
  expect(server.heard.filter((frame) => frame.type === "pong").length).toBe(10);
  await clock.pass(74_000);
  expect(server.connections.length).toBe(1);
  await clock.pass(5000);
  expect(server.connections.length).toBe(2);
  await client.close();
});

it("does not wait for ever for a greeting", async () => {
  const { clock, server, client } = stage();
  server.greets = false;
  client.connect();
  await clock.pass(30_000);
  expect(server.connections.length).toBeGreaterThan(1);
  server.greets = true;
  await clock.pass(60_000);
  expect(client.socket.state).toBe("connected");
  await client.close();
});

for (const code of [1007, 1008, 4001]) {
  it(`stays away after ${code}, and says why to whoever follows`, async () => {
    const { clock, server, client, states } = stage();
    client.connect();
    const next = client.subscribe({ stream: "thread-a", after: 0 }).events().next();
    await clock.pass(1000);
    server.current!.die(code, "words");
    await expect(clock.until(next)).rejects.toMatchObject({ name: "SocketClosedError", code, reason: "words" });
    await clock.pass(3_600_000);
    expect(server.connections.length).toBe(1);
    expect(states.at(-1)).toBe("disconnected");
    await expect(client.subscribe({ stream: "thread-a" }).events().next()).rejects.toThrow(/closed/);
    client.connect(); // somebody mended it
    await clock.pass(1000);
    expect(client.socket.state).toBe("connected");
    await client.close();
  });
}

for (const code of [1000, 1001, 1006, 1011, 1012, 4008]) {
  it(`comes back after ${code}`, async () => {
    const { clock, server, client } = stage();
    client.connect();
    await clock.pass(1000);
    server.current!.die(code);
    await clock.pass(2000);
    expect(client.socket.state).toBe("connected");
    expect(server.connections.length).toBe(2);
    await client.close();
  });
}

it("connects at once when the machine is online again", async () => {
  const { clock, server, client } = stage();
  server.refuse = 1006;
  client.connect();
  await clock.pass(120_000);
  server.refuse = undefined;
  const before = server.connections.length;
  client.socket.wake();
  await clock.pass(100);
  expect(server.connections.length).toBe(before + 1);
  await client.close();
});

it("leaves when who was logged in logs out, and whoever follows is told", async () => {
  const { clock, server, client } = stage();
  client.connect();
  const next = client.subscribe({ stream: "thread-a", after: 0 }).events().next();
  await clock.pass(1000);
  client.positions.take("p");
  await client.auth.logOut().catch(() => undefined);
  await expect(clock.until(next)).rejects.toThrow(/nobody is logged in/);
  expect(server.current).toBeUndefined();
  expect(client.positions.current).toBeUndefined();
  await client.close();
});

it("is not let in where nobody is logged in, and does not hammer", async () => {
  const { clock, server, client } = stage();
  await client.auth.logOut().catch(() => undefined);
  client.connect();
  await clock.pass(60_000);
  expect(server.connections.length).toBe(0);
  expect(client.socket.ended).toMatchObject({ code: 1008 });
  await client.close();
});
