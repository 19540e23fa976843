// The client on real sockets of `ws`, cut at any byte by a proxy between it and the server.
import { createServer, connect, type Server as TcpServer, type Socket as Tcp } from "node:net";
import { createServer as createHttp } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { type ClientFrame, createClient, type WebSocketClass } from "../src/index.js";
import { Log } from "./support/log.js";
import { randomOf } from "./support/time.js";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** A backend that tells a log in frames of several events. */
async function backend(log: Log): Promise<number> {
  const http = createHttp((_, response) => response.writeHead(201, { "content-type": "application/json" }).end('{"ticket":"t","expires_at":""}'));
  const sockets = new WebSocketServer({ server: http, path: "/api/v1/ws/device" });
  sockets.on("connection", (socket) => {
    socket.on("error", () => undefined);
    socket.on("message", (raw: Buffer) => {
      const frame = JSON.parse(raw.toString()) as ClientFrame;
      const say = (what: unknown) => socket.send(JSON.stringify(what));
      if (frame.type === "device_hello") say({ type: "hello", version: "t", features: [], scopes: [] });
      if (frame.type !== "subscribe") return;
      say({ type: "subscribed", id: frame.id, head: log.events.length });
      for (let at = frame.after!; at < log.events.length; at += 10) {
        say({ type: "events", subscription: frame.id, cursor: Math.min(at + 10, log.events.length), events: log.events.slice(at, at + 10) });
      }
    });
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  ends.push(async () => {
    for (const socket of sockets.clients) socket.terminate();
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  });
  return (http.address() as AddressInfo).port;
}

/** Passes bytes on, and cuts each connection after some of them until it has cut so many. */
async function proxy(port: number, random: () => number, cuts: number): Promise<{ port: number; left: () => number }> {
  const open = new Set<Tcp>();
  const server: TcpServer = createServer((down) => {
    const up = connect(port, "127.0.0.1");
    const both = [down, up];
    const kill = () => {
      for (const one of both) {
        one.destroy();
        open.delete(one);
      }
    };
    for (const one of both) {
      open.add(one);
      one.on("error", kill).on("close", kill);
    }
    down.pipe(up);
    let left = cuts > 0 ? Math.floor(random() * 30_000) : Number.POSITIVE_INFINITY;
    up.on("data", (piece: Buffer) => {
      const pass = piece.subarray(0, left);
      left -= pass.length;
      down.write(pass, () => left <= 0 && kill());
      if (left <= 0) cuts--;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ends.push(async () => {
    for (const one of open) one.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { port: (server.address() as AddressInfo).port, left: () => cuts };
}

it("has every event once, in order and whole, though real connections are cut at any byte", async () => {
  const seed = Math.floor(Math.random() * 1e9);
  const random = randomOf(seed);
  const log = new Log();
  for (let i = 0; i < 600; i++) log.append(`thread-${Math.floor(random() * 5)}`, "thread.titled", { n: i }, { text: `title ${i}` });
  const between = await proxy(await backend(log), random, 15);
  const client = createClient({
    url: `http://127.0.0.1:${between.port}`,
    WebSocket: WebSocket as unknown as WebSocketClass,
    socket: { minReconnectDelay: 1, maxReconnectDelay: 20 },
    retries: 100,
    clock: { now: Date.now, random, clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout), setTimeout: (run, ms) => setTimeout(run, Math.min(ms, 60_000)) },
  });
  await client.auth.use({ access_token: "a", access_expires_at: "2999-01-01T00:00:00Z", refresh_token: "r", refresh_expires_at: "", token_type: "Bearer" });
  client.connect();
  const got: string[] = [];
  for await (const event of client.subscribe({ scope: "user-1", after: 0 }).events()) {
    got.push(event.hash);
    if (got.length === log.events.length) break;
  }
  await client.close();
  expect(got, `seed ${seed}`).toEqual(log.events.map(({ hash }) => hash));
});
