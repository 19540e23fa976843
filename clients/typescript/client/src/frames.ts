// The socket's frames, typed from the backend's own document of them (handlers/live/asyncapi.yaml).
import type { ClientFrame, Event, EventData, Fields, ServerFrame } from "./generated/frames.js";

export type {
  Actor,
  BlockData,
  ClientFrame,
  DataRequest,
  DataResponse,
  DeviceHello,
  ErrorFrame,
  EventData,
  Failure,
  Fields,
  FloatingRequest,
  HomeRequest,
  LiveData,
  LiveFrame,
  Mutation,
  MutationRequest,
  ServerFrame,
  Stored,
  Subscribe,
  ToolCall,
  ToolResult,
} from "./generated/frames.js";

/** A frame of either direction. */
export type Frame = ServerFrame | ClientFrame;

/** An event as a subscription tells it. */
export type StreamEvent = Event;

/** An event of a known type: its `data` is typed, with what is sealed in the log opened as `content`. */
export type EventOf<T extends keyof EventData> = Omit<Event, "event_type" | "data"> & { event_type: T; data: NonNullable<EventData[T]> & Fields };

/** Whether an event is of that type. */
export function isEvent<T extends keyof EventData>(event: StreamEvent, type: T): event is StreamEvent & EventOf<T> {
  return event.event_type === type;
}
