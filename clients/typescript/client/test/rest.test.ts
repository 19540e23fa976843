import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { type ClientOptions, createClient, MemoryStorage, ProblemError } from "../src/index.js";
import { VirtualClock } from "./support/time.js";

interface Seen {
  method: string;
  url: URL;
  headers: IncomingMessage["headers"];
  body: string;
}
type Reply = { status?: number; headers?: Record<string, string>; body?: unknown; cut?: true };

const servers: Server[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve)))));
});

/** A backend over real HTTP that answers as told. */
async function backend(answer: (seen: Seen, nth: number) => Reply) {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (piece: Buffer) => (body += piece.toString()));
    request.on("end", () => {
      const one = { method: request.method!, url: new URL(request.url!, "http://x"), headers: request.headers, body };
      seen.push(one);
      const { status = 200, headers = {}, body: said, cut } = answer(one, seen.length);
      if (cut) return void request.socket.destroy();
      response.writeHead(status, { "content-type": status < 400 ? "application/json" : "application/problem+json", ...headers });
      response.end(said === undefined ? undefined : JSON.stringify(said));
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { seen, url };
}

const tokens = (n: number, seconds = 900) => ({
  access_token: `access-${n}`,
  access_expires_at: new Date(Date.now() + seconds * 1000).toISOString(),
  refresh_token: `refresh-${n}`,
  refresh_expires_at: "2999-01-01T00:00:00Z",
  token_type: "Bearer",
});
const account = { scope: "user-1", tier: "free", user_id: "1" };
const position = (n: number, scope = "user-1") => Buffer.from(`1|${scope}|${n}|0|0|${n}`).toString("base64url");

class NoSocket {
  readyState = 0;
  onopen = null;
  onmessage = null;
  onclose = null;
  onerror = null;
  send() {}
  close() {}
}

/** A client whose waits take no time. */
function clientOf(url: string, options: Partial<ClientOptions> = {}) {
  const clock = new VirtualClock();
  const quick = { now: () => Date.now(), random: clock.random, clearTimeout: (t: unknown) => clearTimeout(t as NodeJS.Timeout), setTimeout: (run: () => void, ms: number) => (clock.waits.push(ms), setTimeout(run, 1)) };
  return { client: createClient({ url, WebSocket: NoSocket, clock: quick, ...options }), waits: clock.waits };
}

it("turns a problem document into an error that says everything in it", async () => {
  const problem = { type: "/problems/invalid", title: "No sense", status: 422, detail: "is empty", code: "invalid", traceId: "t1", errors: [{ pointer: "/title", detail: "is empty" }] };
  const { url } = await backend(() => ({ status: 422, body: problem, headers: { "retry-after": "7" } }));
  const { client } = clientOf(url);
  await client.auth.use(tokens(1));
  const error = await client.api.POST("/api/v1/threads", { body: { title: "" } }).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(ProblemError);
  expect(error).toMatchObject({ status: 422, code: "invalid", traceId: "t1", detail: "is empty", errors: problem.errors, retryAfter: 7 });
});

it("names by its status what is no problem document", async () => {
  const { url } = await backend(() => ({ status: 502 }));
  const { client } = clientOf(url, { retries: 0 });
  await client.auth.use(tokens(1));
  await expect(client.api.GET("/api/v1/me")).rejects.toMatchObject({ status: 502, code: "" });
});

it("gives a command a key of its own, and repeats it under that key until its outcome is known", async () => {
  const { seen, url } = await backend((_, nth) => (nth === 1 ? { cut: true } : nth === 2 ? { status: 504, body: { code: "outcome_unknown" } } : nth === 3 ? { status: 503, body: { code: "unavailable" }, headers: { "retry-after": "3" } } : { status: 201, body: { id: "t" } }));
  const { client, waits } = clientOf(url);
  await client.auth.use(tokens(1));
  const { data } = await client.api.POST("/api/v1/threads", { body: { title: "Plans" } });
  expect(data!.id).toBe("t");
  await client.api.POST("/api/v1/threads", { body: { title: "Plans" } });
  const keys = seen.map(({ headers }) => headers["idempotency-key"]);
  expect(new Set(keys.slice(0, 4)).size).toBe(1);
  expect(keys[4]).not.toBe(keys[0]);
  expect(seen.every(({ body }) => body === '{"title":"Plans"}')).toBe(true);
  expect(waits[2]).toBeGreaterThanOrEqual(3000);
});

it("does not repeat what may not be repeated, nor for ever what may", async () => {
  const { seen, url } = await backend(() => ({ status: 503, body: { code: "unavailable" } }));
  const { client } = clientOf(url, { retries: 2 });
  await client.auth.use(tokens(1));
  await expect(client.api.POST("/api/v1/ws/tickets")).rejects.toThrow(ProblemError);
  expect(seen.length).toBe(1);
  await expect(client.api.GET("/api/v1/me")).rejects.toThrow(ProblemError);
  expect(seen.length).toBe(4);
});

it("shows in every read what it wrote: the greatest position, and only where one is taken", async () => {
  const positions = [position(5), position(3), position(9), position(2, "user-2"), "of-a-newer-form"];
  const { seen, url } = await backend((_, nth) => ({ body: { data: [], nextCursor: null }, headers: { position: positions[nth - 1] ?? "" } }));
  const { client } = clientOf(url);
  await client.auth.use(tokens(1));
  for (let i = 0; i < 6; i++) await client.api.GET("/api/v1/threads");
  await client.api.PATCH("/api/v1/threads/{thread}", { params: { path: { thread: "t" } }, body: { title: "x" } });
  await client.api.POST("/api/v1/ws/tickets");
  await client.api.GET("/api/v1/threads", { params: { query: { min_position: "mine" } } });
  expect(seen.map(({ url }) => url.searchParams.get("min_position"))).toEqual([null, position(5), position(5), position(9), position(2, "user-2"), "of-a-newer-form", "of-a-newer-form", null, "mine"]);
  expect(seen[6]).toMatchObject({ method: "PATCH", body: '{"title":"x"}' });
  expect(seen[6]!.headers["content-type"]).toBe("application/json");
});

it("forgets a position that a restored log does not know", async () => {
  const { seen, url } = await backend((one) => (one.url.searchParams.has("min_position") ? { status: 409, body: { code: "position_unknown" } } : { body: account, headers: { position: position(1) } }));
  const { client } = clientOf(url);
  await client.auth.use(tokens(1));
  client.positions.take(position(99));
  expect((await client.api.GET("/api/v1/me")).data).toEqual(account);
  expect(seen.length).toBe(2);
  expect(client.positions.current).toBe(position(1));
});

it("renews a token once for all who need it, keeps it, and repeats what was refused", async () => {
  const { seen, url } = await backend((one) => {
    if (one.url.pathname === "/api/v1/sessions/refresh") return { body: tokens(2) };
    return one.headers.authorization === "Bearer access-2" ? { body: account } : { status: 401, body: { code: "unauthorized" } };
  });
  const storage = new MemoryStorage();
  const { client } = clientOf(url, { storage });
  await client.auth.use(tokens(1));
  const answers = await Promise.all(Array.from({ length: 8 }, () => client.api.GET("/api/v1/me")));
  expect(answers.every(({ data }) => data?.scope === "user-1")).toBe(true);
  expect(seen.filter((one) => one.url.pathname.endsWith("refresh")).map(({ body }) => body)).toEqual(['{"refresh_token":"refresh-1"}']);
  expect(await clientOf(url, { storage }).client.auth.tokens()).toMatchObject({ access_token: "access-2" });
});

it("renews a token before its end, and logs out where the refresh token is refused", async () => {
  const { seen, url } = await backend((one) => (one.url.pathname.endsWith("refresh") ? { status: 401, body: { code: "unauthorized" } } : { body: account }));
  const { client } = clientOf(url);
  await client.auth.use(tokens(1, 10));
  await expect(client.api.GET("/api/v1/me")).rejects.toMatchObject({ status: 401 });
  expect(seen.length).toBe(1);
  expect(await client.auth.tokens()).toBeUndefined();
});

it("registers, and logs out", async () => {
  const { seen, url } = await backend((one) => (one.method === "DELETE" ? { status: 204 } : { status: 201, body: { account, ...tokens(1) } }));
  const { client } = clientOf(url);
  expect(await client.auth.register("a@b.c", "a long password")).toEqual(account);
  await client.auth.logOut();
  expect(seen.map(({ method, url, body }) => [method, url.pathname, body])).toEqual([
    ["POST", "/api/v1/accounts", '{"email":"a@b.c","password":"a long password"}'],
    ["DELETE", "/api/v1/sessions", '{"refresh_token":"refresh-1"}'],
  ]);
  expect(seen.every(({ headers }) => headers.authorization === undefined)).toBe(true);
});

it("has a command done that an earlier process could not send, once and under its key", async () => {
  let up = false;
  const { seen, url } = await backend(() => (up ? { status: 201, body: { id: "t" }, headers: { position: position(4) } } : { status: 503, body: { code: "unavailable" } }));
  const storage = new MemoryStorage();
  const { client: first } = clientOf(url, { storage, retries: 0 });
  await first.auth.use(tokens(1));
  const lost = first.command({ method: "POST", path: "/api/v1/threads", body: { title: "Plans" } });
  while (seen.length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
  await first.close();
  await expect(lost).rejects.toThrow(/closed/);

  up = true;
  const before = seen.length;
  const { client: second } = clientOf(url, { storage });
  second.connect();
  while ((await second.outbox.pending()).length > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const sent = seen.filter((one) => one.url.pathname === "/api/v1/threads");
  expect(sent.length).toBeGreaterThanOrEqual(before + 1);
  expect(new Set(sent.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
  expect(second.positions.current).toBe(position(4));
  await second.close();
});

it("gives up a command that is refused, and says why", async () => {
  const { url } = await backend(() => ({ status: 422, body: { code: "invalid" } }));
  const { client } = clientOf(url);
  await client.auth.use(tokens(1));
  await expect(client.command({ method: "POST", path: "/api/v1/threads", body: {} })).rejects.toMatchObject({ code: "invalid" });
  expect(await client.outbox.pending()).toEqual([]);
  await client.close();
});

it("ends where its signal is aborted", async () => {
  const { url } = await backend(() => ({ status: 503, body: { code: "unavailable" }, headers: { "retry-after": "1" } }));
  const { client } = clientOf(url, { retries: 1e9 });
  await client.auth.use(tokens(1));
  const controller = new AbortController();
  const read = client.api.GET("/api/v1/me", { signal: controller.signal });
  setTimeout(() => controller.abort(new Error("enough")), 50);
  await expect(read).rejects.toThrow(/enough|abort/i);
});
