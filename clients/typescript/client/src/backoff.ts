// How long to wait before trying again.
import type { Clock } from "./clock.js";

/** Full jitter between min and max: a server that restarts is not met by all its clients at once. */
export function jitter(clock: Clock, attempt: number, min: number, max: number): number {
  const ceiling = Math.min(max, min * 2 ** Math.min(attempt + 1, 30));
  return min + clock.random() * Math.max(0, ceiling - min);
}

/** Resolves after ms, and rejects with the signal's reason where it is aborted before. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const abort = () => {
      clock.clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = clock.setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
