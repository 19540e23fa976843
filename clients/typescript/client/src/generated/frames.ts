// Generated from handlers/live/asyncapi.yaml by `npm run generate`. Do not edit.

/**
 * W3C Trace Context.
 */
export type Traceparent = string;
/**
 * Only for a new thread.
 */
export type History = Line[];
/**
 * Where the thread has an active run; queue where it is absent.
 */
export type OnBusy = "queue" | "refuse" | "interrupt";
/**
 * Made by the client and kept until the request's end. Without one the server makes one, and a repeat is a new request.
 */
export type RequestID = string;
export type Table = string;
export type Rows = Fields[];
/**
 * A min_position for reads over HTTP that must show the run's end.
 */
export type Position = string;
/**
 * 1536 numbers.
 */
export type Vector = number[];

export interface Actor {
  agent?: string;
  device?: string;
  id?: string;
  kind: string;
  run?: string;
}
/**
 * By block_type: entity_ref {entity, rows}, table {headers, rows}, chart {chartType, title, data, config}, timeline {checkpoints}, retry {keep}.
 */
export interface BlockData {
  chartType?: "area" | "bar" | "line" | "pie" | "radar" | "radial";
  checkpoints?: {
    date: string | number;
    id: string;
    title: string;
  }[];
  config?: Fields;
  data?: Fields[];
  entity?: "task" | "project" | "note" | "checkpoint";
  headers?: string[];
  keep?: Keep;
  rows?: unknown[];
  title?: string;
  [k: string]: unknown;
}
export interface Fields {
  [k: string]: unknown;
}
export interface Keep {
  /**
   * Blocks that stay.
   */
  blocks: number;
  /**
   * Bytes of text (UTF-8) that stay.
   */
  text: number;
}
/**
 * Ends a request or a run.
 */
export interface Cancel {
  request_id?: string;
  run_id?: string;
  traceparent?: Traceparent;
  type: "cancel";
}
/**
 * A message, version 2; answered with text_chunk and one final.
 */
export interface ChatRequest {
  context?: {
    conversation_history?: History;
    project_id?: string;
    session_id?: string;
  };
  conversation_history?: History;
  /**
   * At most 1 MiB together with the history.
   */
  message: string;
  on_busy?: OnBusy;
  request_id?: RequestID;
  /**
   * The thread to go on with; a new one where it is absent.
   */
  session_id?: string;
  traceparent?: Traceparent;
  type: "chat_request";
}
export interface Line {
  /**
   * Text; entries with something else are left out.
   */
  content?: unknown;
  role: string;
}
/**
 * A read outside a run; answered with data_response.
 */
export interface DataRequest {
  action: "select" | "get";
  data?: Fields;
  deadline: string;
  filters?: Fields;
  id: string;
  limit?: number;
  table?: Table;
  traceparent?: Traceparent;
  type: "data_request";
}
/**
 * The answer to a data_request, 1 MiB at most.
 */
export interface DataResponse {
  /**
   * In words.
   */
  error?: string;
  id: string;
  row?: {
    [k: string]: unknown;
  } | null;
  rows?: Rows;
  traceparent?: Traceparent;
  type: "data_response";
}
/**
 * The first frame, within 15 s; again when something of it changed.
 */
export interface DeviceHello {
  agent_ids?: string[];
  /**
   * Takes `events` frames.
   */
  batch?: boolean;
  /**
   * Made once by the installation and kept.
   */
  device_id: string;
  /**
   * Answers repeated call ids from its own record.
   */
  journal?: boolean;
  name?: string;
  /**
   * 2 where it is absent; only who says it gets a hello.
   */
  protocol?: 2 | 3;
  /**
   * IANA, such as Europe/Rome.
   */
  timezone?: string;
  type: "device_hello";
}
/**
 * A frame was refused, or something failed.
 */
export interface ErrorFrame {
  code: string;
  /**
   * The call's, or the subscription's.
   */
  id?: string;
  message: string;
  request_id?: string;
  /**
   * Seconds.
   */
  retry_after?: number;
  type: "error";
}
export interface Event {
  actor: Actor;
  at: string;
  /**
   * What is clear in the log, and as `content` what is sealed there, opened.
   */
  data: {
    [k: string]: unknown;
  };
  /**
   * Such as thread.titled; EventData has what is known of each.
   */
  event_type: string;
  /**
   * The hash chain of its stream up to it.
   */
  hash: string;
  id: string;
  /**
   * Its place in its scope: 1, 2, 3 …
   */
  position: number;
  salt?: string;
  schema: number;
  /**
   * HMAC-SHA-256 of stored.text under salt.
   */
  seal_digest?: string;
  /**
   * Its version in its stream: 1, 2, 3 …
   */
  seq: number;
  stored?: Stored;
  stream: string;
}
/**
 * What the hash and the digest are of, byte for byte: JSON texts, as they are stored.
 */
export interface Stored {
  actor: string;
  at: string;
  data: string;
  /**
   * The opened content.
   */
  text?: string;
}
/**
 * The next event of a subscription.
 */
export interface EventFrame {
  actor: Actor;
  at: string;
  /**
   * What is clear in the log, and as `content` what is sealed there, opened.
   */
  data: {
    [k: string]: unknown;
  };
  /**
   * Such as thread.titled; EventData has what is known of each.
   */
  event_type: string;
  /**
   * The hash chain of its stream up to it.
   */
  hash: string;
  id: string;
  /**
   * Its place in its scope: 1, 2, 3 …
   */
  position: number;
  salt?: string;
  schema: number;
  /**
   * HMAC-SHA-256 of stored.text under salt.
   */
  seal_digest?: string;
  /**
   * Its version in its stream: 1, 2, 3 …
   */
  seq: number;
  stored?: Stored;
  stream: string;
  subscription: string;
  type: "event";
}
/**
 * Several events of a subscription, for clients that said batch. Without an event it moves the cursor.
 */
export interface EventsFrame {
  /**
   * Where the subscription is after them.
   */
  cursor: number;
  events: Event[];
  subscription: string;
  type: "events";
}
export interface Failure {
  code: string;
  message: string;
}
/**
 * Of a chat_request: its end, with the whole answer.
 */
export interface Final {
  position?: Position;
  request_id?: string;
  /**
   * A failure is told in words.
   */
  response: string;
  type: "final";
}
/**
 * The first of a floating_request: what it is about.
 */
export interface FloatingDomain {
  domain: "tasks" | "checkpoints" | "notes" | "projects";
  request_id: string;
  type: "floating_domain";
}
/**
 * A message about one thing; answered with text.
 */
export interface FloatingRequest {
  conversation_history?: History;
  /**
   * At most 1 MiB together with the history.
   */
  message: string;
  on_busy?: OnBusy;
  request_id?: RequestID;
  scope: {
    id?: string;
    type: "task" | "project" | "note" | "checkpoint";
  };
  /**
   * The thread to go on with; a new one where it is absent.
   */
  session_id?: string;
  traceparent?: Traceparent;
  type: "floating_request";
}
/**
 * The answer to a device_hello that named its protocol. Nobody needs to wait for it.
 */
export interface Hello {
  features: string[];
  /**
   * What it may follow, and how far that is.
   */
  scopes: {
    /**
     * The newest position; null: it could not be read now.
     */
    head: number | null;
    scope: string;
  }[];
  type: "hello";
  /**
   * The server's.
   */
  version: string;
}
/**
 * A message; answered with text and blocks.
 */
export interface HomeRequest {
  conversation_history?: History;
  /**
   * At most 1 MiB together with the history.
   */
  message: string;
  on_busy?: OnBusy;
  request_id?: RequestID;
  /**
   * The thread to go on with; a new one where it is absent.
   */
  session_id?: string;
  traceparent?: Traceparent;
  type: "home_request";
}
/**
 * By kind: text and reasoning {text}, block {block_type, data}, tool {call_id, tool}, retry {}.
 */
export interface LiveData {
  block_type?: string;
  call_id?: string;
  data?: BlockData;
  text?: string;
  tool?: string;
  [k: string]: unknown;
}
/**
 * What is streaming now of a subscription's stream: provisional, without a seq.
 */
export interface LiveFrame {
  attempt: number;
  /**
   * Of text and block: how many blocks the attempt had before.
   */
  blocks?: number;
  data: LiveData;
  kind: string;
  /**
   * Counts within the attempt; of joined frames the last one's.
   */
  n: number;
  /**
   * Of text and block: how many bytes (UTF-8) of text the attempt had before.
   */
  offset?: number;
  run_id: string;
  subscription: string;
  turn: number;
  type: "live";
}
export interface Mutation {
  action: string;
  id: string;
  table: string;
}
/**
 * An approved write outside a run; answered with tool_result.
 */
export interface MutationRequest {
  action: "insert" | "update" | "delete" | "vector_upsert";
  data?: Fields;
  deadline: string;
  id: string;
  table?: Table;
  traceparent?: Traceparent;
  type: "mutation";
  vector?: Vector;
}
/**
 * Every 30 s; may be answered with pong. Answered with pong.
 */
export interface Ping {
  type: "ping";
}
/**
 * The answer to ping.
 */
export interface Pong {
  type: "pong";
}
/**
 * The server is about to close the socket. Connect again after so long, and repeat what has no end.
 */
export interface Reconnect {
  after_ms: number;
  reason: string;
  type: "reconnect";
}
/**
 * A subscription has ended. Load what it followed anew, and subscribe again after head.
 */
export interface Reset {
  head: number;
  head_hash?: string;
  reason: string;
  subscription: string;
  type: "reset";
}
/**
 * A block; one of type `retry` takes back what came after `keep`. Unknown types are to be ignored.
 */
export interface StreamBlock {
  block_type: string;
  data: BlockData;
  request_id: string;
  type: "stream_block";
}
/**
 * A request's end, exactly one.
 */
export interface StreamEnd {
  error?: Failure;
  /**
   * What the run changed on the device.
   */
  mutations: Mutation[];
  position?: Position;
  request_id: string;
  type: "stream_end";
}
/**
 * A request was accepted and its answer begins.
 */
export interface StreamStart {
  request_id: string;
  run_id: string;
  /**
   * The thread.
   */
  session_id: string;
  type: "stream_start";
}
/**
 * Text that goes on where the last one stopped.
 */
export interface StreamText {
  chunk: string;
  request_id: string;
  type: "stream_text";
}
/**
 * Follows a stream, or a whole scope.
 */
export interface Subscribe {
  /**
   * The last seq of the stream, or position of the scope, that one has. 0: from the beginning; absent: from now.
   */
  after?: number;
  /**
   * The hash of the event at `after`.
   */
  after_hash?: string;
  /**
   * Only with a scope.
   */
  filter?: {
    /**
     * Events of the runs that this agent answers.
     */
    agent_id?: string;
    /**
     * Events of these types.
     */
    types?: string[];
  };
  /**
   * The subscription's name on this socket.
   */
  id: string;
  /**
   * Such as user-…, as hello has it.
   */
  scope?: string;
  /**
   * Each event carries what is stored byte for byte.
   */
  stored?: boolean;
  /**
   * Such as thread-…
   */
  stream?: string;
  type: "subscribe";
}
/**
 * Before the first event of a subscription.
 */
export interface Subscribed {
  /**
   * The newest seq or position.
   */
  head: number;
  id: string;
  type: "subscribed";
}
/**
 * Of a chat_request: text that goes on where the last one stopped.
 */
export interface TextChunk {
  request_id?: string;
  text: string;
  type: "text_chunk";
}
/**
 * The device has started a call. Optional.
 */
export interface ToolAck {
  id: string;
  type: "tool_ack";
}
/**
 * Something to do on the device.
 */
export interface ToolCall {
  action: "select" | "get" | "insert" | "update" | "delete" | "vector_upsert" | "vector_search";
  data?: Fields;
  deadline: string;
  filters?: Fields;
  id: string;
  limit?: number;
  run_id: string;
  /**
   * The version of the event that asked for it.
   */
  seq: number;
  table?: Table;
  traceparent?: Traceparent;
  type: "tool_call";
  vector?: Vector;
}
/**
 * The answer to a tool_call or a mutation, 1 MiB at most. One to a data_request is taken as well, for journals that keep no frame types.
 */
export interface ToolResult {
  deleted?: boolean | number | string;
  /**
   * In words.
   */
  error?: string;
  id: string;
  ok?: boolean;
  results?: {
    content?: string;
    id: string;
    score: number;
  }[];
  row?: {
    [k: string]: unknown;
  } | null;
  rows?: Rows;
  traceparent?: Traceparent;
  type: "tool_result";
}
/**
 * An answer of the device is recorded.
 */
export interface ToolResultAck {
  id: string;
  type: "tool_result_ack";
}
/**
 * Ends a subscription.
 */
export interface Unsubscribe {
  id: string;
  type: "unsubscribe";
}
/**
 * A subscription has ended, as was wished; nothing of it comes any more.
 */
export interface Unsubscribed {
  id: string;
  type: "unsubscribed";
}
/**
 * No frame: by the event's type, what `data` of an event is in its newest schema. `content` is what is sealed in the log, opened; it is absent where the event had none, and where its key was destroyed.
 */
export interface EventData {
  "account.registered"?: AccountRegistered;
  "account.tier_changed"?: AccountTierChanged;
  "account.erased"?: AccountErased;
  "device.introduced"?: DeviceIntroduced;
  "device.seen"?: DeviceSeen;
  "device.data_requested"?: DeviceDataRequested;
  "device.mutation_requested"?: DeviceMutationRequested;
  "device.request_offered"?: DeviceRequestOffered;
  "device.data_answered"?: DeviceDataAnswered;
  "device.data_failed"?: DeviceDataFailed;
  "device.mutation_completed"?: DeviceMutationCompleted;
  "device.mutation_failed"?: DeviceMutationFailed;
  "device.late_answer_recorded"?: DeviceLateAnswerRecorded;
  "thread.opened"?: ThreadOpened;
  "thread.titled"?: ThreadTitled;
  "thread.message_posted"?: ThreadMessagePosted;
  "thread.run_started"?: ThreadRunStarted;
  "thread.route_requested"?: ThreadRouteRequested;
  "thread.route_decided"?: ThreadRouteDecided;
  "thread.route_failed"?: ThreadRouteFailed;
  "thread.turn_requested"?: ThreadTurnRequested;
  "thread.turn_completed"?: ThreadTurnCompleted;
  "thread.turn_failed"?: ThreadTurnFailed;
  "thread.tool_call_requested"?: ThreadToolCallRequested;
  "thread.tool_step_requested"?: ThreadToolStepRequested;
  "thread.tool_call_offered"?: ThreadToolCallOffered;
  "thread.tool_step_completed"?: ThreadToolStepCompleted;
  "thread.tool_call_completed"?: ThreadToolCallCompleted;
  "thread.tool_call_failed"?: ThreadToolCallFailed;
  "thread.late_result_recorded"?: ThreadLateResultRecorded;
  "thread.indexing_failed"?: ThreadIndexingFailed;
  "thread.indexing_ended"?: ThreadIndexingEnded;
  "thread.run_resumed"?: ThreadRunResumed;
  "thread.run_completed"?: ThreadRunCompleted;
  "thread.run_failed"?: ThreadRunFailed;
  "thread.run_cancelled"?: ThreadRunCancelled;
}
/**
 * Registered is the first event of an account.
 */
export interface AccountRegistered {
  tier: string;
}
/**
 * TierChanged moves an account to another tier.
 */
export interface AccountTierChanged {
  from: string;
  to: string;
}
/**
 * Erased ends an account and its scope: every later command of the scope is rejected scope_erased.
 */
export interface AccountErased {}
/**
 * Introduced is what a device said in its hello; a later one replaces it.
 */
export interface DeviceIntroduced {
  /**
   * 2 or 3
   */
  protocol: number;
  timezone?: string;
  journal?: boolean;
  batch?: boolean;
  /**
   * NameDigest is HMAC-SHA-256 of the name under the scope's index key, hex: how a change is seen.
   */
  name_digest?: string;
  content?: DeviceIntroducedContent;
}
/**
 * Name is the sealed part of Introduced.
 */
export interface DeviceIntroducedContent {
  text: string;
}
/**
 * Seen says that a device came online.
 */
export interface DeviceSeen {
  at: string;
  /**
   * a run waited for the device
   */
  waiting?: boolean;
}
/**
 * DataRequested asks for rows: the action is select or get.
 */
export interface DeviceDataRequested {
  /**
   * the id of the device's frame, and of the effect
   */
  request_id: string;
  device_id: string;
  action: string;
  table?: string;
  /**
   * Wait is how long an absent device is waited for.
   */
  wait_ns: number;
  /**
   * Repeatable requests may be sent again to a client without a journal.
   */
  repeatable?: boolean;
  content?: DeviceDataRequestedContent;
}
/**
 * Payload is the sealed part of a request: the fields of the device's frame (data, filters, vector, limit).
 */
export interface DeviceDataRequestedContent {
  fields?: unknown;
}
/**
 * MutationRequested asks for a write that somebody approved: insert, update, delete or vector_upsert.
 */
export interface DeviceMutationRequested {
  /**
   * the id of the device's frame, and of the effect
   */
  request_id: string;
  device_id: string;
  action: string;
  table?: string;
  /**
   * Wait is how long an absent device is waited for.
   */
  wait_ns: number;
  /**
   * Repeatable requests may be sent again to a client without a journal.
   */
  repeatable?: boolean;
  content?: DeviceMutationRequestedContent;
}
/**
 * Payload is the sealed part of a request: the fields of the device's frame (data, filters, vector, limit).
 */
export interface DeviceMutationRequestedContent {
  fields?: unknown;
}
/**
 * RequestOffered says that a request is being sent to its device; its 30 s begin.
 */
export interface DeviceRequestOffered {
  request_id: string;
  /**
   * Started says that it must not be sent again: the action is not repeatable and the client keeps no journal.
   */
  started?: boolean;
}
/**
 * DataAnswered is the answer to a DataRequested.
 */
export interface DeviceDataAnswered {
  request_id: string;
  content?: DeviceDataAnsweredContent;
}
/**
 * Result is the sealed part of an outcome.
 */
export interface DeviceDataAnsweredContent {
  /**
   * Device is the device's answer: its frame without type and id.
   */
  device?: unknown;
  /**
   * Text is an answer in words, where there is no device's.
   */
  text?: string;
}
/**
 * DataFailed ends a DataRequested without rows.
 */
export interface DeviceDataFailed {
  request_id: string;
  reason: string;
  /**
   * the size of an answer that is too large
   */
  bytes?: number;
  content?: DeviceDataFailedContent;
}
/**
 * Result is the sealed part of an outcome.
 */
export interface DeviceDataFailedContent {
  /**
   * Device is the device's answer: its frame without type and id.
   */
  device?: unknown;
  /**
   * Text is an answer in words, where there is no device's.
   */
  text?: string;
}
/**
 * MutationCompleted says that a write was done.
 */
export interface DeviceMutationCompleted {
  request_id: string;
  /**
   * none: there was no such row
   *
   * Items: Mutation is what a request changed on the device.
   */
  mutations?: {
    table: string;
    action: string;
    id: string;
  }[];
  content?: DeviceMutationCompletedContent;
}
/**
 * Result is the sealed part of an outcome.
 */
export interface DeviceMutationCompletedContent {
  /**
   * Device is the device's answer: its frame without type and id.
   */
  device?: unknown;
  /**
   * Text is an answer in words, where there is no device's.
   */
  text?: string;
}
/**
 * MutationFailed ends a MutationRequested; whether it was done is open where the reason is outcome_unknown or deadline.
 */
export interface DeviceMutationFailed {
  request_id: string;
  reason: string;
  bytes?: number;
  content?: DeviceMutationFailedContent;
}
/**
 * Result is the sealed part of an outcome.
 */
export interface DeviceMutationFailedContent {
  /**
   * Device is the device's answer: its frame without type and id.
   */
  device?: unknown;
  /**
   * Text is an answer in words, where there is no device's.
   */
  text?: string;
}
/**
 * LateAnswerRecorded is a device's answer to a request that had an outcome already.
 */
export interface DeviceLateAnswerRecorded {
  request_id: string;
  /**
   * Items: Mutation is what a request changed on the device.
   */
  mutations?: {
    table: string;
    action: string;
    id: string;
  }[];
  content?: DeviceLateAnswerRecordedContent;
}
/**
 * Result is the sealed part of an outcome.
 */
export interface DeviceLateAnswerRecordedContent {
  /**
   * Device is the device's answer: its frame without type and id.
   */
  device?: unknown;
  /**
   * Text is an answer in words, where there is no device's.
   */
  text?: string;
}
/**
 * Opened is the first event of every thread.
 */
export interface ThreadOpened {}
/**
 * Titled gives the thread a title.
 */
export interface ThreadTitled {
  content?: ThreadTitledContent;
}
/**
 * Title is the sealed part of Titled.
 */
export interface ThreadTitledContent {
  text: string;
}
/**
 * MessagePosted is a person's message.
 */
export interface ThreadMessagePosted {
  run_id: string;
  channel: string;
  queued?: boolean;
  /**
   * the device that its tool calls are bound to
   */
  device_id?: string;
  /**
   * IANA
   */
  timezone?: string;
  focus?: {
    /**
     * task, project, note, checkpoint
     */
    type: string;
    id?: string;
  };
  content?: ThreadMessagePostedContent;
}
/**
 * Content is the sealed part of MessagePosted.
 */
export interface ThreadMessagePostedContent {
  text: string;
  /**
   * History is the client's own past conversation; it counts only where it opened the thread.
   *
   * Items: Said is one line of a client's conversation history.
   */
  history?: {
    /**
     * user or assistant
     */
    role: string;
    content: string;
  }[];
  /**
   * ProjectID is the project the client says the conversation is in.
   */
  project_id?: string;
}
/**
 * RunStarted begins the work on a message.
 */
export interface ThreadRunStarted {
  run_id: string;
  channel: string;
  device_id?: string;
  timezone?: string;
  focus?: {
    /**
     * task, project, note, checkpoint
     */
    type: string;
    id?: string;
  };
  /**
   * MessageVersion is the version of the MessagePosted that the run answers.
   */
  message_version: number;
}
/**
 * RouteRequested asks which agent answers.
 */
export interface ThreadRouteRequested {
  run_id: string;
  attempt: number;
}
/**
 * RouteDecided names the agent.
 */
export interface ThreadRouteDecided {
  run_id: string;
  /**
   * zero: all attempts failed, and nobody was asked
   */
  attempt?: number;
  agent: string;
  model?: string;
  /**
   * Fallback says that the router named no agent.
   */
  fallback?: boolean;
}
/**
 * RouteFailed is an attempt to route that failed; another follows after RetryAfter, or the fallback agent.
 */
export interface ThreadRouteFailed {
  run_id: string;
  attempt: number;
  class: string;
  /**
   * zero: no further attempt
   */
  retry_after_ns?: number;
  content?: ThreadRouteFailedContent;
}
/**
 * Detail is a failure in the words of whoever failed; it may hold content.
 */
export interface ThreadRouteFailedContent {
  text: string;
}
/**
 * TurnRequested asks for a model call.
 */
export interface ThreadTurnRequested {
  run_id: string;
  /**
   * 1, 2, 3 …
   */
  turn: number;
  /**
   * 1, 2, 3 …
   */
  attempt: number;
  agent: string;
  /**
   * NoTools says that the model must answer without tools: the rounds are used up.
   */
  no_tools?: boolean;
}
/**
 * TurnCompleted is a whole model turn: text, or tool calls, or both.
 */
export interface ThreadTurnCompleted {
  run_id: string;
  turn: number;
  attempt: number;
  agent: string;
  model: string;
  finish_reason: string;
  input_tokens?: number;
  output_tokens?: number;
  /**
   * Calls is how many tool calls the turn asks for; each is a ToolCallRequested in the same commit.
   */
  calls?: number;
  /**
   * Warnings are what the formatter dropped, in words without content.
   */
  warnings?: string[];
  /**
   * Metadata is what the model says of itself, such as that it is the offline one.
   */
  metadata?: {
    [k: string]: string;
  };
  content?: ThreadTurnCompletedContent;
}
/**
 * TurnContent is the sealed part of TurnCompleted.
 */
export interface ThreadTurnCompletedContent {
  text: string;
  /**
   * Items: TurnCall is a tool call in the model's own words.
   */
  calls?: {
    /**
     * ours
     */
    call_id: string;
    /**
     * the model's
     */
    model_id: string;
    /**
     * as the model wrote it
     */
    tool: string;
    /**
     * as the model wrote it, valid JSON or not
     */
    arguments: string;
  }[];
}
/**
 * TurnFailed is an attempt that failed; another follows after RetryAfter, or RunFailed in the same commit.
 */
export interface ThreadTurnFailed {
  run_id: string;
  turn: number;
  attempt: number;
  class: string;
  retry_after_ns?: number;
  content?: ThreadTurnFailedContent;
}
/**
 * Detail is a failure in the words of whoever failed; it may hold content.
 */
export interface ThreadTurnFailedContent {
  text: string;
}
/**
 * ToolCallRequested begins a tool call with its first step.
 */
export interface ThreadToolCallRequested {
  call_id: string;
  run_id: string;
  /**
   * 1, 2 …
   */
  step: number;
  tool: string;
  executor: string;
  /**
   * For a device: what it does, and where.
   */
  action?: string;
  table?: string;
  device_id?: string;
  /**
   * Then names the server step that follows a successful device step, or that this server step is.
   */
  then?: string;
  /**
   * Repeatable device steps may be offered again to a client without a journal.
   */
  repeatable?: boolean;
  /**
   * Background steps belong to a call whose result the run already has (indexing a note again).
   */
  background?: boolean;
  turn: number;
  /**
   * place among the turn's calls, from 0
   */
  index: number;
  content?: ThreadToolCallRequestedContent;
}
/**
 * Payload is the sealed part of a step: the fields of the device's frame (data, filters, vector, limit).
 */
export interface ThreadToolCallRequestedContent {
  /**
   * Arguments are the model's, validated and normalised.
   */
  arguments?: unknown;
  /**
   * Fields are merged into the tool_call frame.
   */
  fields?: unknown;
  /**
   * Answer is the result where the executor is AtOnce.
   */
  answer?: string;
}
/**
 * ToolStepRequested is a further step of a call.
 */
export interface ThreadToolStepRequested {
  call_id: string;
  run_id: string;
  /**
   * 1, 2 …
   */
  step: number;
  tool: string;
  executor: string;
  /**
   * For a device: what it does, and where.
   */
  action?: string;
  table?: string;
  device_id?: string;
  /**
   * Then names the server step that follows a successful device step, or that this server step is.
   */
  then?: string;
  /**
   * Repeatable device steps may be offered again to a client without a journal.
   */
  repeatable?: boolean;
  /**
   * Background steps belong to a call whose result the run already has (indexing a note again).
   */
  background?: boolean;
  content?: ThreadToolStepRequestedContent;
}
/**
 * Payload is the sealed part of a step: the fields of the device's frame (data, filters, vector, limit).
 */
export interface ThreadToolStepRequestedContent {
  /**
   * Arguments are the model's, validated and normalised.
   */
  arguments?: unknown;
  /**
   * Fields are merged into the tool_call frame.
   */
  fields?: unknown;
  /**
   * Answer is the result where the executor is AtOnce.
   */
  answer?: string;
}
/**
 * ToolCallOffered says that a device step is being sent to its device; its 30 s begin.
 */
export interface ThreadToolCallOffered {
  call_id: string;
  run_id: string;
  step: number;
  device_id: string;
  /**
   * Started says that it must not be sent again: the action is not repeatable and the client keeps no journal.
   */
  started?: boolean;
  /**
   * Background says that the step is one.
   */
  background?: boolean;
}
/**
 * ToolStepCompleted is the result of a step that is not the last.
 */
export interface ThreadToolStepCompleted {
  call_id: string;
  run_id: string;
  step: number;
  /**
   * Items: Mutation is what a step changed on the device.
   */
  mutations?: {
    table: string;
    action: string;
    id: string;
  }[];
  content?: ThreadToolStepCompletedContent;
}
/**
 * Result is the sealed part of an outcome.
 */
export interface ThreadToolStepCompletedContent {
  /**
   * Device is the device's answer: the tool_result frame without type and id.
   */
  device?: unknown;
  /**
   * Text is an answer in words, where there is no device's.
   */
  text?: string;
}
/**
 * ToolCallCompleted is the result of a call's last step.
 */
export interface ThreadToolCallCompleted {
  call_id: string;
  run_id: string;
  step: number;
  /**
   * Items: Mutation is what a step changed on the device.
   */
  mutations?: {
    table: string;
    action: string;
    id: string;
  }[];
  /**
   * NotIndexed says that the note was stored but not indexed; it is indexed again after a minute.
   */
  not_indexed?: boolean;
  content?: ThreadToolCallCompletedContent;
}
/**
 * Result is the sealed part of an outcome.
 */
export interface ThreadToolCallCompletedContent {
  /**
   * Device is the device's answer: the tool_result frame without type and id.
   */
  device?: unknown;
  /**
   * Text is an answer in words, where there is no device's.
   */
  text?: string;
}
/**
 * ToolCallFailed ends a call with an error that the model reads; it never ends the run.
 */
export interface ThreadToolCallFailed {
  call_id: string;
  run_id: string;
  step: number;
  reason: string;
  /**
   * the size of a result that is too large
   */
  bytes?: number;
  content?: ThreadToolCallFailedContent;
}
/**
 * Result is the sealed part of an outcome.
 */
export interface ThreadToolCallFailedContent {
  /**
   * Device is the device's answer: the tool_result frame without type and id.
   */
  device?: unknown;
  /**
   * Text is an answer in words, where there is no device's.
   */
  text?: string;
}
/**
 * LateResultRecorded is a device's answer to a step that had an outcome already.
 */
export interface ThreadLateResultRecorded {
  call_id: string;
  step: number;
  device_id: string;
  /**
   * Items: Mutation is what a step changed on the device.
   */
  mutations?: {
    table: string;
    action: string;
    id: string;
  }[];
  content?: ThreadLateResultRecordedContent;
}
/**
 * Result is the sealed part of an outcome.
 */
export interface ThreadLateResultRecordedContent {
  /**
   * Device is the device's answer: the tool_result frame without type and id.
   */
  device?: unknown;
  /**
   * Text is an answer in words, where there is no device's.
   */
  text?: string;
}
/**
 * IndexingFailed is an attempt to index in the background that failed; another follows after RetryAfter, or IndexingEnded in the same commit.
 */
export interface ThreadIndexingFailed {
  call_id: string;
  run_id: string;
  step: number;
  reason: string;
  /**
   * zero: no further attempt
   */
  retry_after_ns?: number;
  content?: ThreadIndexingFailedContent;
}
/**
 * Result is the sealed part of an outcome.
 */
export interface ThreadIndexingFailedContent {
  /**
   * Device is the device's answer: the tool_result frame without type and id.
   */
  device?: unknown;
  /**
   * Text is an answer in words, where there is no device's.
   */
  text?: string;
}
/**
 * IndexingEnded ends the background steps of a call.
 */
export interface ThreadIndexingEnded {
  call_id: string;
  step: number;
  ok: boolean;
}
/**
 * RunResumed says that the device came online which an active run waited for.
 */
export interface ThreadRunResumed {
  run_id: string;
  device_id: string;
  steps: string[];
}
/**
 * RunCompleted ends a run whose last turn had no tool calls.
 */
export interface ThreadRunCompleted {
  run_id: string;
  turns: number;
}
/**
 * RunFailed ends a run.
 */
export interface ThreadRunFailed {
  run_id: string;
  code: string;
  /**
   * for people, without content
   */
  reason: string;
}
/**
 * RunCancelled ends a run, active or queued.
 */
export interface ThreadRunCancelled {
  run_id: string;
  /**
   * By is "user", or "interrupt" when another message took its place.
   */
  by: string;
}

/** What a client sends. */
export type ClientFrame =
  | DeviceHello
  | ChatRequest
  | HomeRequest
  | FloatingRequest
  | Cancel
  | ToolAck
  | ToolResult
  | DataResponse
  | Subscribe
  | Unsubscribe
  | Ping
  | Pong;

/** What the backend sends. */
export type ServerFrame =
  | Hello
  | TextChunk
  | Final
  | FloatingDomain
  | StreamStart
  | StreamText
  | StreamBlock
  | StreamEnd
  | ToolCall
  | ToolResultAck
  | DataRequest
  | MutationRequest
  | Subscribed
  | EventFrame
  | EventsFrame
  | LiveFrame
  | Reset
  | Unsubscribed
  | Reconnect
  | ErrorFrame
  | Ping
  | Pong;
