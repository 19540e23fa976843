// Virtual time: timers fire in order as soon as nothing else is to be done.
import type { Clock } from "../../src/index.js";

export class VirtualClock implements Clock {
  #now = 1_800_000_000_000;
  #timers = new Map<number, { at: number; run: () => void }>();
  #serial = 0;
  readonly random: () => number;
  /** What was waited for, in order. */
  readonly waits: number[] = [];

  constructor(seed = 1) {
    this.random = randomOf(seed);
  }

  now(): number {
    return this.#now;
  }

  setTimeout(run: () => void, ms: number): number {
    this.waits.push(ms);
    this.#timers.set(++this.#serial, { at: this.#now + Math.max(0, ms), run });
    return this.#serial;
  }

  clearTimeout(timer: unknown): void {
    this.#timers.delete(timer as number);
  }

  /** Runs what is due within ms. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    await idle();
    for (let next = this.#next(); next && next.at <= end; next = this.#next()) {
      this.#now = Math.max(this.#now, next.at);
      this.#timers.delete(next.id);
      next.run();
      await idle();
    }
    this.#now = end;
  }

  /** Lets time pass until done settles; it must within so many hours of virtual time. */
  async until<T>(done: Promise<T>, hours = 24): Promise<T> {
    let settled = false;
    const end = this.#now + hours * 3_600_000;
    void done.then(
      () => (settled = true),
      () => (settled = true),
    );
    await idle();
    while (!settled) {
      const next = this.#next();
      if (!next || next.at > end) throw new Error(next ? `nothing came in ${hours} hours` : "nothing is to be waited for, and nothing came");
      this.#now = Math.max(this.#now, next.at);
      this.#timers.delete(next.id);
      next.run();
      await idle();
    }
    return done;
  }

  #next(): { id: number; at: number; run: () => void } | undefined {
    let first: { id: number; at: number; run: () => void } | undefined;
    for (const [id, timer] of this.#timers) if (!first || timer.at < first.at) first = { id, ...timer };
    return first;
  }
}

/** Everything that can go on without time has. */
export function idle(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}

/** Reproducible numbers from 0 to below 1 (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
