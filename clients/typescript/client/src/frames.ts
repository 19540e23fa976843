// The socket's frames, as docs/protocol.md has them.

/** What can be said of any JSON object. */
export type Fields = Record<string, unknown>;

export interface ToolCall {
  type: "tool_call";
  id: string;
  action: string;
  table?: string;
  data?: Fields;
  filters?: Fields;
  vector?: number[];
  limit?: number;
  run_id?: string;
  seq?: number;
  deadline?: string;
  traceparent?: string;
}

export interface DataRequest {
  type: "data_request";
  id: string;
  action: string;
  table?: string;
  data?: Fields;
  filters?: Fields;
  deadline?: string;
  traceparent?: string;
}

export interface MutationRequest {
  type: "mutation";
  id: string;
  action: string;
  table?: string;
  data?: Fields;
  vector?: number[];
  deadline?: string;
  traceparent?: string;
}

/** The parts of an event byte for byte, to verify by. */
export interface Stored {
  data: string;
  text?: string;
  actor: string;
  at: string;
}

/** An event as a subscription tells it. */
export interface StreamEvent {
  id: string;
  stream: string;
  seq: number;
  position: number;
  event_type: string;
  schema: number;
  at: string;
  actor: Fields;
  data: Fields;
  hash: string;
  seal_digest?: string;
  salt?: string;
  stored?: Stored;
}

/** What is streaming now: no seq, never stored. */
export interface LiveFrame {
  type: "live";
  subscription: string;
  run_id: string;
  turn: number;
  attempt: number;
  n: number;
  kind: string;
  data: unknown;
  offset?: number;
}

export interface Mutation {
  table: string;
  action: string;
  id: string;
}

export type Frame =
  | ToolCall
  | DataRequest
  | MutationRequest
  | LiveFrame
  | { type: "tool_ack"; id: string }
  | { type: "tool_result_ack"; id: string }
  | ({ type: "tool_result" | "data_response"; id: string } & Fields)
  | { type: "hello"; version: string; features: string[]; scopes: { scope: string; head: number | null }[] }
  | { type: "ping" }
  | { type: "pong" }
  | { type: "error"; code: string; message: string; request_id?: string; id?: string; retry_after?: number }
  | { type: "reconnect"; after_ms: number; reason: string }
  | { type: "subscribed"; id: string; head: number }
  | { type: "unsubscribed"; id: string }
  | ({ type: "event"; subscription: string } & StreamEvent)
  | { type: "events"; subscription: string; cursor: number; events: StreamEvent[] }
  | { type: "reset"; subscription: string; reason: string; head: number; head_hash?: string }
  | { type: "stream_start"; request_id: string; session_id?: string; run_id?: string }
  | { type: "floating_domain"; request_id: string; domain: string }
  | { type: "stream_text"; request_id: string; chunk: string }
  | { type: "stream_block"; request_id: string; block_type: string; data: unknown }
  | { type: "stream_end"; request_id: string; mutations: Mutation[]; error?: { code: string; message: string }; position?: string }
  | ({ type: "device_hello" | "home_request" | "floating_request" | "cancel" | "subscribe" | "unsubscribe" } & Fields);
