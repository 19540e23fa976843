// The pair of tokens that lets in, renewed when it must be.
import type { Clock } from "./clock.js";
import type { components } from "./generated/openapi.js";
import { ProblemError } from "./problem.js";
import type { Storage } from "./storage.js";

export type Tokens = components["schemas"]["Tokens"];
export type Account = components["schemas"]["Account"];
export type Session = components["schemas"]["Session"];

const key = "cairn/tokens";
// An access token is renewed so long before its end: the request that carries it must still arrive in time.
const early = 30_000;

/** What Session needs: where to ask, and where tokens are kept. */
export interface AuthOptions {
  url: string;
  fetch: (request: Request) => Promise<Response>;
  storage: Storage;
  clock: Clock;
  /** Nobody is logged in any more: who was has logged out, or may not come back with these tokens. */
  onEnd: () => void;
}

/** Registers, logs in and out, and has an access token whenever one is needed. */
export class Auth {
  readonly #options: AuthOptions;
  #tokens: Tokens | undefined;
  #loaded: Promise<void> | undefined;
  #renewing: Promise<Tokens> | undefined;

  constructor(options: AuthOptions) {
    this.#options = options;
  }

  register(email: string, password: string, signal?: AbortSignal): Promise<Account> {
    return this.#enter("/api/v1/accounts", { email, password }, signal);
  }

  logIn(email: string, password: string, signal?: AbortSignal): Promise<Account> {
    return this.#enter("/api/v1/sessions", { email, password }, signal);
  }

  /** Ends the session; the tokens are forgotten also where the backend can't be told. */
  async logOut(signal?: AbortSignal): Promise<void> {
    await this.#load();
    const tokens = this.#tokens;
    await this.#keep(undefined);
    if (tokens) await this.#post("/api/v1/sessions", { refresh_token: tokens.refresh_token }, signal, "DELETE");
  }

  /** Goes on with the tokens of an earlier session. */
  async use(tokens: Tokens): Promise<void> {
    await this.#load();
    await this.#keep(tokens);
  }

  /** The tokens in use, undefined where nobody is logged in. */
  async tokens(): Promise<Tokens | undefined> {
    await this.#load();
    return this.#tokens;
  }

  /** A token that lets in. `refused` is one that the backend did not take: another is fetched, once for all who ask. */
  async access(refused?: string): Promise<string> {
    await this.#load();
    const tokens = this.#tokens;
    if (!tokens) throw new ProblemError(401, { code: "unauthorized", title: "Nobody is logged in" });
    const expires = Date.parse(tokens.access_expires_at) - early;
    if (tokens.access_token !== refused && !(expires <= this.#options.clock.now())) return tokens.access_token;
    this.#renewing ??= this.#renew(tokens).finally(() => {
      this.#renewing = undefined;
    });
    return (await this.#renewing).access_token;
  }

  async #renew(tokens: Tokens): Promise<Tokens> {
    // An answer that is lost is no loss: the old refresh token gets the same successor for a minute.
    try {
      const response = await this.#post("/api/v1/sessions/refresh", { refresh_token: tokens.refresh_token });
      const renewed = (await response.json()) as Tokens;
      if (this.#tokens === tokens) await this.#keep(renewed);
      return renewed;
    } catch (error) {
      if (error instanceof ProblemError && error.status === 401 && this.#tokens === tokens) await this.#keep(undefined);
      throw error;
    }
  }

  async #enter(path: string, body: unknown, signal?: AbortSignal): Promise<Account> {
    await this.#load();
    const response = await this.#post(path, body, signal);
    const { account, ...tokens } = (await response.json()) as Session;
    await this.#keep(tokens);
    return account;
  }

  async #post(path: string, body: unknown, signal?: AbortSignal, method = "POST"): Promise<Response> {
    const response = await this.#options.fetch(
      new Request(this.#options.url + path, {
        method,
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
        ...(signal ? { signal } : {}),
      }),
    );
    if (!response.ok) throw await ProblemError.of(response);
    return response;
  }

  async #keep(tokens: Tokens | undefined): Promise<void> {
    const ended = this.#tokens !== undefined && tokens === undefined;
    this.#tokens = tokens;
    if (ended) this.#options.onEnd();
    if (tokens) await this.#options.storage.set(key, JSON.stringify(tokens));
    else await this.#options.storage.delete(key);
  }

  #load(): Promise<void> {
    this.#loaded ??= (async () => {
      const text = await this.#options.storage.get(key);
      if (text) this.#tokens = JSON.parse(text) as Tokens;
    })();
    return this.#loaded;
  }
}
