// Time and chance, as they come in through the door.

/** What the client asks for the time, and to be woken. Tests give their own. */
export interface Clock {
  now(): number;
  setTimeout(run: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
  /** A number from 0 to below 1. */
  random(): number;
}

/** The machine's own. */
export const systemClock: Clock = {
  now: () => Date.now(),
  // Not without a hold on the process: while it waits to connect again nothing else keeps Node from ending.
  setTimeout: (run, ms) => setTimeout(run, ms),
  clearTimeout: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
  random: Math.random,
};
