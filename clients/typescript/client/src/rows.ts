// A thread's events as rows of its timeline, as `GET /threads/{id}/timeline` shows them.
import type { Fields, StreamEvent } from "./frames.js";
import type { components } from "./generated/openapi.js";

type Schemas = components["schemas"];
interface Kinds {
  message: Schemas["MessageItem"];
  assistant: Schemas["AssistantItem"];
  tool_call: Schemas["ToolCallItem"];
  tool_result: Schemas["ToolResultItem"];
  run_end: Schemas["RunEndItem"];
  title: Schemas["TitleItem"];
  step: Schemas["StepItem"];
}

/** A committed row. */
export type Row = {
  [K in keyof Kinds]: {
    seq: number;
    at: string;
    kind: K;
    item: Kinds[K];
    hash: string;
    /** The text is as the model wrote it, not as it is shown: its blocks are still in it. A page has it formatted. */
    unformatted?: true;
  };
}[keyof Kinds];

/** The row that an event is. */
export function rowOf(event: StreamEvent): Row {
  const at = { seq: event.seq, at: event.at, hash: event.hash };
  const { content: sealed, ...data } = event.data;
  const content = (sealed ?? {}) as Fields;
  const run = data.run_id as string;
  switch (event.event_type) {
    case "thread.message_posted":
      return {
        ...at,
        kind: "message",
        item: defined({
          run_id: run,
          text: String(content.text ?? ""),
          channel: data.channel as string,
          queued: data.queued as boolean | undefined,
          device_id: data.device_id as string | undefined,
          focus: data.focus as Schemas["Focus"] | undefined,
          project_id: content.project_id as string | undefined,
          conversation_history: content.history as Schemas["Said"][] | undefined,
        }),
      };
    case "thread.turn_completed":
      if (!content.text) break; // it only calls tools, which are rows of their own
      return assistant(at, data, content);
    case "thread.tool_call_requested": {
      const { call_id, turn, tool, executor, action, table, device_id } = data as Kinds["tool_call"];
      const index = (data.index as number | undefined) ?? 0;
      return { ...at, kind: "tool_call", item: defined({ call_id, run_id: run, turn, index, tool, executor, action, table, device_id, arguments: content.arguments }) };
    }
    case "thread.tool_call_completed":
      return { ...at, kind: "tool_result", item: defined({ ...resultOf(data, content), ok: true, not_indexed: data.not_indexed as boolean | undefined }) };
    case "thread.tool_call_failed":
      return { ...at, kind: "tool_result", item: defined({ ...resultOf(data, content), ok: false, reason: data.reason as string, bytes: data.bytes as number | undefined }) };
    case "thread.run_completed":
      return { ...at, kind: "run_end", item: { run_id: run, status: "completed", turns: data.turns as number } };
    case "thread.run_failed":
      return { ...at, kind: "run_end", item: { run_id: run, status: "failed", code: data.code as string, reason: data.reason as string } };
    case "thread.run_cancelled":
      return { ...at, kind: "run_end", item: { run_id: run, status: "cancelled", by: data.by as string } };
    case "thread.titled":
      return { ...at, kind: "title", item: { text: String(content.text ?? "") } };
  }
  return { ...at, kind: "step", item: { type: event.event_type, schema: event.schema, data: data as never, ...(sealed === undefined ? {} : { content: sealed as never }) } };
}

function assistant(at: { seq: number; at: string; hash: string }, data: Fields, content: Fields): Row {
  const text = String(content.text);
  const calls = Array.isArray(content.calls) ? content.calls.length : undefined;
  const { run_id, turn, agent, model, finish_reason, input_tokens, output_tokens, metadata } = data as Kinds["assistant"];
  return {
    ...at,
    kind: "assistant",
    item: defined({ run_id, turn, agent, model, finish_reason, text, calls, input_tokens, output_tokens, metadata }),
    // Without an object in it the text is shown as it is; what objects become depends on rows that tools returned.
    ...(text.includes("{") ? { unformatted: true as const } : {}),
  };
}

function resultOf(data: Fields, content: Fields) {
  return {
    call_id: data.call_id as string,
    run_id: data.run_id as string,
    text: content.text as string | undefined,
    device: content.device as never,
    mutations: data.mutations as Schemas["Mutation"][] | undefined,
  };
}

type Defined<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & { [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined> };

function defined<T extends object>(object: T): Defined<T> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as Defined<T>;
}
