// What went wrong, as the backend says it (RFC 9457).
import type { components } from "./generated/openapi.js";

export type Problem = components["schemas"]["Problem"];
export type Fault = components["schemas"]["Fault"];

/** An answer that says what went wrong. Programs look at `code`. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly traceId: string;
  /** Each wrong value, where the request makes no sense. */
  readonly errors: readonly Fault[];
  /** Seconds after which it may be tried again; absent: trying again does not help, or nobody knows. */
  readonly retryAfter: number | undefined;
  readonly problem: Partial<Problem>;

  constructor(status: number, problem: Partial<Problem>, retryAfter?: number) {
    super(`${problem.detail || problem.title || `status ${status}`} (${problem.code ?? status})`);
    this.status = status;
    this.problem = problem;
    this.code = problem.code ?? "";
    this.title = problem.title ?? "";
    this.detail = problem.detail ?? "";
    this.traceId = problem.traceId ?? "";
    this.errors = problem.errors ?? [];
    this.retryAfter = retryAfter;
  }

  /** Reads an answer of status 400 or more; what is no problem document is named by its status. */
  static async of(response: Response): Promise<ProblemError> {
    let problem: Partial<Problem> = { title: response.statusText };
    try {
      const body: unknown = await response.json();
      if (typeof body === "object" && body !== null) problem = body as Partial<Problem>;
    } catch {
      // A proxy's page, or a body that broke off.
    }
    return new ProblemError(response.status, problem, retryAfter(response));
  }
}

/** The seconds of an answer's Retry-After, undefined where it has none. */
export function retryAfter(response: Response): number | undefined {
  const text = response.headers.get("retry-after");
  const seconds = text === null ? Number.NaN : Number(text);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined;
}
