// What the window may ask of the main process. It has no token, no file and no socket.
import type { AskResult, SocketState, Timeline } from "@cairnhq/client";

/** What the window is told without asking. */
export type Change =
  | { type: "timeline"; thread: string; timeline: Timeline }
  | { type: "state"; state: SocketState; why?: string }
  | { type: "row"; table: string }
  | { type: "failed"; thread: string; message: string };

export interface CairnBridge {
  logIn(email: string, password: string): Promise<void>;
  /** Sends a message and resolves with the run's end; what streams meanwhile comes as changes of the timeline. */
  ask(message: string, thread?: string): Promise<AskResult>;
  /** The rows of one of the device's tables. */
  rows(table: string): Promise<Record<string, unknown>[]>;
  /** Follows a thread from now on, in place of the one before. */
  follow(thread: string): void;
  onChange(listener: (change: Change) => void): () => void;
}

declare global {
  interface Window {
    readonly cairn: CairnBridge;
  }
}
