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
  setTimeout: (run, ms) => {
    const timer = setTimeout(run, ms);
    // A waiting reconnect must not keep a Node process alive by itself.
    (timer as { unref?: () => void }).unref?.();
    return timer;
  },
  clearTimeout: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
  random: Math.random,
};
