// The operations of the HTTP interface, typed from its document.
import createFetchClient, { type Client as FetchClient } from "openapi-fetch";
import { jitter, sleep } from "./backoff.js";
import type { Clock } from "./clock.js";
import type { paths } from "./generated/openapi.js";
import { takesKey, takesPosition } from "./generated/operations.js";
import type { Positions } from "./position.js";
import { ProblemError, retryAfter } from "./problem.js";
import type { Auth } from "./tokens.js";

/**
 * GET, POST, PATCH … of every operation. An answer of status 400 or more rejects with a ProblemError, so `data` is what the
 * operation answers. A command gets an Idempotency-Key and is repeated under it where its outcome is not known; a read shows
 * what this client wrote and read before (`min_position`).
 */
export type Api = FetchClient<paths>;

export interface RestOptions {
  url: string;
  auth: Auth;
  positions: Positions;
  fetch: (request: Request) => Promise<Response>;
  clock: Clock;
  /** A new id. */
  newID: () => string;
  /** How often a request is repeated that may be. */
  retries: number;
}

// Who comes here has no token yet.
const open = new Set(["/api/v1/accounts", "/api/v1/sessions", "/api/v1/sessions/refresh"]);

/** Makes the operations. */
export function createApi(options: RestOptions): Api {
  const api = createFetchClient<paths>({ baseUrl: options.url, fetch: (request) => perform(options, request) });
  api.use({
    async onRequest({ schemaPath, request }) {
      const operation = `${request.method} ${schemaPath}`;
      const position = options.positions.current;
      if (takesKey.has(operation) && !request.headers.has("idempotency-key")) request.headers.set("idempotency-key", options.newID());
      if (!takesPosition.has(operation) || position === undefined) return undefined;
      const url = new URL(request.url);
      if (url.searchParams.has("min_position")) return undefined;
      url.searchParams.set("min_position", position);
      return moved(request, url);
    },
    async onResponse({ response }) {
      if (response.status >= 400) throw await ProblemError.of(response);
      options.positions.take(response.headers.get("position"));
      return undefined;
    },
  });
  return api;
}

/** Sends a request as the operations do: with a token, and repeated where that may be. */
export async function perform(options: RestOptions, request: Request): Promise<Response> {
  const repeatable = request.method === "GET" || request.headers.has("idempotency-key");
  const authorized = !open.has(new URL(request.url).pathname) && !request.headers.has("authorization");
  let token: string | undefined;
  let refused = false;
  for (let attempt = 0; ; attempt++) {
    if (authorized) {
      token = await options.auth.access(refused ? token : undefined);
      request.headers.set("authorization", `Bearer ${token}`);
    }
    let response: Response;
    try {
      response = await options.fetch(request.clone());
    } catch (error) {
      if (request.signal.aborted || !repeatable || attempt >= options.retries) throw error;
      await sleep(options.clock, jitter(options.clock, attempt, 200, 5000), request.signal);
      continue;
    }
    if (response.status === 401 && authorized && !refused) {
      refused = true;
      continue;
    }
    if (response.status === 409 && (await codeOf(response)) === "position_unknown" && forgets(options, request)) {
      request = await withoutPosition(request);
      continue;
    }
    if (!repeatable || attempt >= options.retries || !(await passes(response))) return response;
    await sleep(options.clock, waitFor(options, response, attempt), request.signal);
  }
}

// A restored log does not know the newest positions; what reads must show is then what there is.
function forgets(options: RestOptions, request: Request): boolean {
  const position = new URL(request.url).searchParams.get("min_position");
  if (position === null || position !== options.positions.current) return false;
  options.positions.forget();
  return true;
}

function withoutPosition(request: Request): Promise<Request> {
  const url = new URL(request.url);
  url.searchParams.delete("min_position");
  return moved(request, url);
}

// The same request for another address. Its body is copied: browsers would send one that is taken over as a stream.
async function moved(request: Request, url: URL): Promise<Request> {
  const { method, headers, signal } = request;
  const body = request.body === null ? null : await request.clone().text();
  return new Request(url, { method, headers, signal, body });
}

async function codeOf(response: Response): Promise<string | undefined> {
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => undefined);
  return (body as { code?: string } | undefined)?.code;
}

async function passes(response: Response): Promise<boolean> {
  if (response.status === 429 || response.status === 503) {
    const code = await codeOf(response);
    return code !== "paused" && code !== "stopped";
  }
  return response.status === 504;
}

function waitFor(options: RestOptions, response: Response, attempt: number): number {
  const said = retryAfter(response);
  return said === undefined ? jitter(options.clock, attempt, 200, 5000) : said * 1000 + options.clock.random() * 250;
}
