// A call as the store does it, whichever frame it came by, and what may be wrong with it.
import type { DeviceCall } from "@cairnhq/client";

/** The fields of `tool_call`, `data_request` and `mutation` together. */
export interface Call {
  id: string;
  type: DeviceCall["type"];
  action: string;
  table?: string | undefined;
  data?: unknown;
  filters?: unknown;
  vector?: unknown;
  limit?: unknown;
}

/** A row of a table, by column. */
export type Row = Record<string, unknown>;

/** What is wrong with a call, in words that the model reads. It is an answer, and no failure of the device. */
export class CallError extends Error {
  override readonly name = "CallError";
}

const reads = new Set(["select", "get"]);
const writes = new Set(["insert", "update", "delete", "vector_upsert"]);

/** Looks at what a frame of that type may ask for. */
export function permitted(call: Call): void {
  if (call.type === "data_request" && !reads.has(call.action)) throw new CallError(`a data_request reads; ${JSON.stringify(call.action)} is no select and no get`);
  if (call.type === "mutation" && !writes.has(call.action)) throw new CallError(`a mutation writes; ${JSON.stringify(call.action)} does not`);
}

/** An object's entries; null and a missing one (where it may be missing) are an empty one. */
export function fields(value: unknown, what: string): Record<string, unknown> {
  if (value === null) return {};
  if (value === undefined) throw new CallError(`${what} is not an object: it is missing`);
  if (typeof value !== "object" || Array.isArray(value)) throw new CallError(`${what} is not an object`);
  return value as Record<string, unknown>;
}
