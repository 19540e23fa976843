// A WebSocket as browsers, Node 22 and `ws` have it; the client brings none of its own.

/** The part of a WebSocket that is used. */
export interface WebSocketLike {
  readonly readyState: number;
  binaryType?: string;
  send(data: string): void;
  close(code?: number, reason?: string): void;
  /** `ws` has it: ends the connection without a close handshake. */
  terminate?(): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
}

/** A class such as the global WebSocket, or that of `ws`. */
export type WebSocketClass = new (url: string) => WebSocketLike;

/** A frame's text, undefined where it is no text. */
export function textOf(event: { data: unknown }): string | undefined {
  if (typeof event.data === "string") return event.data;
  if (event.data instanceof Uint8Array) return new TextDecoder().decode(event.data);
  return undefined;
}
