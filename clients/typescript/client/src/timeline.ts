// The timeline of a thread: committed rows, and the provisional head merged over them. Everything here is pure.
import type { Fields, LiveFrame, StreamEvent } from "./frames.js";
import { type Row, rowOf } from "./rows.js";

/** A run of provisional text: what was heard from a byte of the turn's text on. */
export interface Part {
  offset: number;
  text: string;
}

/** What is streaming now in a run: never stored, and replaced by the rows that are committed. */
export interface Provisional {
  turn: number;
  attempt: number;
  /** The newest frame's number within the attempt. */
  n: number;
  /** More than one where frames between them were missed; what is missing comes with the committed row. */
  parts: readonly Part[];
  reasoning: string;
  blocks: readonly { type: string; data: unknown; at: number }[];
  /** The open tool calls, by call id. */
  tools: Readonly<Record<string, Fields>>;
}

export interface Timeline {
  /** Ascending by seq, no seq twice. */
  rows: readonly Row[];
  /** By run id. */
  provisional: Readonly<Record<string, Provisional>>;
  /** The oldest attempt of each run whose frames still say something new: [turn, attempt]. */
  floors: Readonly<Record<string, readonly [turn: number, attempt: number]>>;
}

export type TimelineAction =
  | { type: "page"; entries: readonly Row[] }
  | { type: "event"; event: StreamEvent }
  | { type: "live"; live: LiveFrame }
  /** The read model was loaded anew: only what is streaming now stays. */
  | { type: "reset" };

export const emptyTimeline: Timeline = { rows: [], provisional: {}, floors: {} };

/** The timeline after an action. Provisional frames add no rows; a row takes away the provisional state that it is the end of. */
export function timelineReducer(timeline: Timeline, action: TimelineAction): Timeline {
  switch (action.type) {
    case "page":
      return action.entries.reduce(commit, timeline);
    case "event":
      return commit(timeline, rowOf(action.event));
    case "live":
      return hear(timeline, action.live);
    case "reset":
      return { ...timeline, rows: [] };
  }
}

/** What a chat shows of the rows. */
export function shownRows(timeline: Timeline): Row[] {
  return timeline.rows.filter((row) => row.kind !== "step");
}

/** The provisional text of a run, with `…` where some of it was missed. */
export function provisionalText(provisional: Provisional): string {
  const [first] = provisional.parts;
  return (first && first.offset > 0 ? "…" : "") + provisional.parts.map((part) => part.text).join("…");
}

function commit(timeline: Timeline, row: Row): Timeline {
  return settle({ ...timeline, rows: insert(timeline.rows, row) }, row);
}

function insert(rows: readonly Row[], row: Row): readonly Row[] {
  const last = rows.at(-1);
  if (!last || row.seq > last.seq) return [...rows, row];
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle]!.seq < row.seq) low = middle + 1;
    else high = middle;
  }
  const there = rows[low];
  if (there?.seq !== row.seq) return rows.toSpliced(low, 0, row);
  return there.unformatted && !row.unformatted ? rows.with(low, row) : rows;
}

// What a committed row is the end of.
function settle(timeline: Timeline, row: Row): Timeline {
  switch (row.kind) {
    case "assistant":
      return raise(timeline, row.item.run_id, row.item.turn + 1, 0);
    case "run_end":
      return raise(timeline, row.item.run_id, Number.POSITIVE_INFINITY, 0);
    case "tool_result":
      return closeCall(timeline, row.item.run_id, row.item.call_id);
    case "step": {
      const data = row.item.data as Fields;
      const [run, turn, attempt] = [data.run_id as string, data.turn as number, data.attempt as number];
      if (row.item.type === "thread.turn_completed") return raise(timeline, run, turn + 1, 0);
      if (row.item.type === "thread.turn_requested") return raise(timeline, run, turn, attempt);
      if (row.item.type === "thread.turn_failed") return raise(timeline, run, turn, attempt + 1);
      return timeline;
    }
    default:
      return timeline;
  }
}

function raise(timeline: Timeline, run: string, turn: number, attempt: number): Timeline {
  const floor = timeline.floors[run];
  if (floor && compare(floor[0], floor[1], turn, attempt) >= 0) return timeline;
  const floors = { ...timeline.floors, [run]: [turn, attempt] as const };
  const now = timeline.provisional[run];
  if (!now || compare(now.turn, now.attempt, turn, attempt) >= 0) return { ...timeline, floors };
  const { [run]: gone, ...rest } = timeline.provisional;
  // Calls stay open beyond the turn that asked for them.
  const open = turn !== Number.POSITIVE_INFINITY && Object.keys(now.tools).length > 0;
  return { ...timeline, floors, provisional: open ? { ...rest, [run]: { ...fresh(turn, attempt), tools: now.tools } } : rest };
}

function closeCall(timeline: Timeline, run: string, call: string): Timeline {
  const now = timeline.provisional[run];
  if (!now || !(call in now.tools)) return timeline;
  const { [call]: gone, ...tools } = now.tools;
  const { [run]: before, ...rest } = timeline.provisional;
  const after = { ...now, tools };
  return { ...timeline, provisional: isEmpty(after) ? rest : { ...rest, [run]: after } };
}

function hear(timeline: Timeline, live: LiveFrame): Timeline {
  const { run_id: run, turn, attempt, n } = live;
  const floor = timeline.floors[run];
  // Calls of a turn run after it was committed: their progress is of the turn below.
  if (live.kind === "tool") return progress(timeline, live);
  if (floor && compare(turn, attempt, floor[0], floor[1]) < 0) return timeline;
  let now = timeline.provisional[run];
  const order = now ? compare(turn, attempt, now.turn, now.attempt) : 1;
  if (order < 0) return timeline;
  const data = (typeof live.data === "object" && live.data !== null ? live.data : {}) as Fields;
  if (!now || order > 0) now = { ...fresh(turn, attempt), tools: now?.tools ?? {} };
  else if (n <= now.n) {
    // Another worker took the attempt over: its frames count from 1 again, and what it says may be something else.
    if (n !== 1 || (live.offset ?? 0) !== 0) return timeline;
    now = { ...fresh(turn, attempt), tools: now.tools };
  }
  const next = { ...now, n };
  switch (live.kind) {
    case "text":
      next.parts = joined(now.parts, live.offset, String(data.text ?? ""));
      break;
    case "reasoning":
      next.reasoning = now.reasoning + String(data.text ?? "");
      break;
    case "block":
      next.blocks = [...now.blocks, { type: String(data.block_type ?? ""), data: data.data, at: live.offset ?? 0 }];
      break;
    case "retry":
      Object.assign(next, { parts: [], reasoning: "", blocks: [] });
      break;
    default:
      return timeline; // of a newer release
  }
  return { ...timeline, provisional: { ...timeline.provisional, [run]: next } };
}

function progress(timeline: Timeline, live: LiveFrame): Timeline {
  const { run_id: run } = live;
  const data = (live.data ?? {}) as Fields;
  const call = data.call_id;
  if (typeof call !== "string" || timeline.floors[run]?.[0] === Number.POSITIVE_INFINITY) return timeline;
  if (timeline.rows.some((row) => row.kind === "tool_result" && row.item.call_id === call)) return timeline;
  const now = timeline.provisional[run] ?? fresh(live.turn, live.attempt);
  return { ...timeline, provisional: { ...timeline.provisional, [run]: { ...now, tools: { ...now.tools, [call]: data } } } };
}

const encoder = new TextEncoder();

function joined(parts: readonly Part[], offset: number | undefined, text: string): readonly Part[] {
  const last = parts.at(-1);
  const end = last ? last.offset + encoder.encode(last.text).length : 0;
  const from = offset ?? end;
  if (from < end) return parts; // had already
  if (last && from === end) return [...parts.slice(0, -1), { offset: last.offset, text: last.text + text }];
  return [...parts, { offset: from, text }];
}

function fresh(turn: number, attempt: number): Provisional {
  return { turn, attempt, n: 0, parts: [], reasoning: "", blocks: [], tools: {} };
}

function isEmpty(p: Provisional): boolean {
  return p.parts.length === 0 && p.reasoning === "" && p.blocks.length === 0 && Object.keys(p.tools).length === 0;
}

function compare(turn: number, attempt: number, otherTurn: number, otherAttempt: number): number {
  return turn === otherTurn ? attempt - otherAttempt : turn < otherTurn ? -1 : 1;
}
