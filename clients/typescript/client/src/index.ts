// @cairnhq/client: what a program needs to follow, read and command Cairn.
export { createClient, Client, type ClientOptions } from "./client.js";
export { ProblemError, type Fault, type Problem } from "./problem.js";
export { type Account, type Tokens } from "./tokens.js";
export type { Api } from "./rest.js";
export type { components, operations, paths } from "./generated/openapi.js";
export { Socket, SocketClosedError, type Hello, type SocketOptions, type SocketState } from "./socket.js";
export type { WebSocketClass, WebSocketLike } from "./websocket.js";
export { SubscribeError, Subscription, type Item, type Reset, type Want } from "./subscription.js";
export type { Cursor } from "./cursor.js";
export { IntegrityError, chain, digest, genesis, verify, type Subtle } from "./chain.js";
export { emptyTimeline, provisionalText, shownRows, timelineReducer, type Part, type Provisional, type Timeline, type TimelineAction } from "./timeline.js";
export { rowOf, type Row } from "./rows.js";
export { TimelineFollower, type FollowerOptions } from "./follower.js";
export { AskError, Asked, type Ask, type AskResult, type Block } from "./requests.js";
export { Outbox, type Outgoing } from "./outbox.js";
export type { Command } from "./commands.js";
export { Device, type Answer, type DeviceCall, type DeviceExecutor, type DeviceOptions, type DeviceSocket, type JournalEntry } from "./device.js";
export { MemoryStorage, type Storage } from "./storage.js";
export { systemClock, type Clock } from "./clock.js";
export { isEvent, type EventOf, type StreamEvent, type Frame } from "./frames.js";
export type {
  Actor, BlockData, ClientFrame, DataRequest, DataResponse, DeviceHello, ErrorFrame, EventData, Failure, Fields, LiveData, LiveFrame,
  Mutation, MutationRequest, ServerFrame, Stored, Subscribe, ToolCall, ToolResult,
} from "./generated/frames.js";
