// A client of the server in virtual time, let in without asking.
import { Client, type ClientOptions, MemoryStorage } from "../../src/index.js";
import { subtle } from "./log.js";
import type { Server } from "./server.js";

export function clientOf(server: Server, options: Partial<ClientOptions> = {}): Client {
  const storage = options.storage ?? new MemoryStorage();
  let serial = 0;
  const client = new Client({
    url: "http://cairn.test",
    WebSocket: server.WebSocket,
    clock: server.clock,
    subtle,
    newID: () => `id-${++serial}-${server.heard.length}`,
    fetch: async (request) => {
      if (new URL(request.url).pathname === "/api/v1/ws/tickets") return Response.json({ ticket: "t", expires_at: "" }, { status: 201 });
      return Response.json({ code: "not_found" }, { status: 404 });
    },
    ...options,
    device: { id: "d1", ...options.device },
    storage,
  });
  void client.auth.use({ access_token: "a", access_expires_at: "2999-01-01T00:00:00Z", refresh_token: "r", refresh_expires_at: "2999-01-01T00:00:00Z", token_type: "Bearer" });
  return client;
}
