import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { emptyTimeline, type LiveFrame, provisionalText, type Row, rowOf, shownRows, type StreamEvent, type Timeline, type TimelineAction, timelineReducer } from "../src/index.js";
import { Log } from "./support/log.js";
import { randomOf } from "./support/time.js";

/** A thread of runs, each of turns, each of attempts, and the provisional frames of every attempt that was told. */
function history(seed: number, runs: number): { events: StreamEvent[]; moments: (StreamEvent | LiveFrame)[] } {
  const random = randomOf(seed);
  const log = new Log();
  const moments: (StreamEvent | LiveFrame)[] = [];
  const commit = (type: string, data: Record<string, unknown>, content?: unknown) => moments.push(log.append("thread-t", `thread.${type}`, data, content));
  commit("opened", {});
  for (let r = 1; r <= runs; r++) {
    const run_id = `r${r}`;
    commit("message_posted", { run_id, channel: "chat" }, { text: `question ${r}` });
    commit("run_started", { run_id, channel: "chat", message_version: log.events.length });
    const turns = 1 + Math.floor(random() * 3);
    for (let turn = 1; turn <= turns; turn++) {
      const attempts = 1 + Math.floor(random() * 2);
      for (let attempt = 1; attempt <= attempts; attempt++) {
        commit("turn_requested", { run_id, turn, attempt, agent: "a" });
        let text = "";
        let n = 0;
        const say = (kind: string, data: LiveFrame["data"], offset?: number) =>
          moments.push({ type: "live", subscription: "s", run_id, turn, attempt, n: ++n, kind, data, ...(offset === undefined ? {} : { offset }) });
        for (let i = 0; i < 4; i++) {
          if (random() < 0.3) say("reasoning", { text: "hm" });
          const chunk = `r${r}t${turn}a${attempt}é${i} `;
          say("text", { text: chunk }, Buffer.byteLength(text));
          text += chunk;
        }
        if (attempt < attempts) {
          commit("turn_failed", { run_id, turn, attempt, class: "unavailable" }, { text: "broke off" });
          continue;
        }
        const last = turn === turns;
        commit("turn_completed", { run_id, turn, attempt, agent: "a", model: "m", finish_reason: "stop", ...(last ? {} : { calls: 1 }) }, { text, ...(last ? {} : { calls: [{ call_id: `${run_id}.${turn}.0` }] }) });
        if (last) continue;
        const call_id = `${run_id}.${turn}.0`;
        commit("tool_call_requested", { call_id, run_id, step: 1, tool: "list_tasks", executor: "device", turn, index: 0 }, { arguments: {} });
        moments.push({ type: "live", subscription: "s", run_id, turn, attempt, n: n + 1, kind: "tool", data: { call_id, tool: "list_tasks" } });
        commit("tool_call_completed", { call_id, run_id, step: 1 }, { device: { rows: [] } });
      }
    }
    commit("run_completed", { run_id, turns });
  }
  return { events: log.events, moments };
}

const isLive = (moment: StreamEvent | LiveFrame): moment is LiveFrame => "type" in moment;
const actionOf = (moment: StreamEvent | LiveFrame): TimelineAction => (isLive(moment) ? { type: "live", live: moment } : { type: "event", event: moment });
const play = (actions: TimelineAction[], from: Timeline = emptyTimeline) => actions.reduce(timelineReducer, from);

const aHistory = fc.record({ seed: fc.integer({ min: 1, max: 1 << 30 }), runs: fc.integer({ min: 1, max: 3 }) }).map(({ seed, runs }) => ({ seed, ...history(seed, runs) }));

describe("the timeline", () => {
  it("says in the end what the committed events alone say, whichever frames came, and when", () => {
    fc.assert(
      fc.property(aHistory, fc.infiniteStream(fc.nat(9)), ({ events, moments, seed }, chance) => {
        const random = randomOf(seed);
        // Events keep their order; frames are lost, told twice, and come later than they should.
        const mixed: TimelineAction[] = [];
        const late: TimelineAction[] = [];
        for (const moment of moments) {
          const roll = chance.next().value as number;
          if (!isLive(moment)) mixed.push(actionOf(moment));
          else if (roll < 2) continue;
          else if (roll < 4) late.push(actionOf(moment));
          else mixed.push(actionOf(moment), ...(roll === 9 ? [actionOf(moment)] : []));
          while (late.length > 0 && random() < 0.2) mixed.push(late.shift()!);
        }
        const end = play([...mixed, ...late]);
        expect(end.rows).toEqual(events.map(rowOf));
        expect(end.provisional).toEqual({});
      }),
      { numRuns: 100 },
    );
  });

  it("never has a row for a frame, nor two rows of one seq, and is ascending, at every moment and from pages in any order", () => {
    fc.assert(
      fc.property(aHistory, fc.array(fc.tuple(fc.nat(100), fc.nat(30)), { maxLength: 8 }), fc.nat(100), ({ events, moments }, pages, cut) => {
        const rows = events.map(rowOf);
        const seen = Math.floor((moments.length * cut) / 100);
        let timeline = emptyTimeline;
        const law = () => timeline.rows.every((row, i) => i === 0 || row.seq > timeline.rows[i - 1]!.seq);
        for (const [at, size] of pages) {
          const from = Math.floor((rows.length * at) / 100);
          timeline = timelineReducer(timeline, { type: "page", entries: rows.slice(from, from + size) });
          expect(law()).toBe(true);
        }
        for (const moment of moments.slice(0, seen)) {
          const before = timeline.rows;
          timeline = timelineReducer(timeline, actionOf(moment));
          if (isLive(moment)) expect(timeline.rows).toBe(before);
          expect(law()).toBe(true);
        }
        const whole = timelineReducer(timeline, { type: "page", entries: rows });
        expect(whole.rows).toEqual(rows);
        expect(whole.provisional).toEqual({});
      }),
      { numRuns: 80 },
    );
  });

  it("shows of what is streaming exactly what was heard of that attempt, and nothing that is committed", () => {
    fc.assert(
      fc.property(aHistory, ({ moments }) => {
        let timeline = emptyTimeline;
        const texts = new Map<string, string>();
        for (const moment of moments) {
          timeline = timelineReducer(timeline, actionOf(moment));
          if (isLive(moment) && moment.kind === "text") {
            const key = `${moment.run_id} ${moment.turn} ${moment.attempt}`;
            texts.set(key, (texts.get(key) ?? "") + moment.data.text!);
            expect(provisionalText(timeline.provisional[moment.run_id]!)).toBe(texts.get(key));
          }
          for (const [run, now] of Object.entries(timeline.provisional)) {
            const committed = timeline.rows.some((row) => row.kind === "assistant" && row.item.run_id === run && row.item.turn === now.turn);
            if (committed) expect(now.parts).toEqual([]);
          }
        }
      }),
      { numRuns: 60 },
    );
  });
});

const live = (n: number, text: string, offset: number, more: Partial<LiveFrame> = {}): TimelineAction => ({
  type: "live",
  live: { type: "live", subscription: "s", run_id: "r", turn: 1, attempt: 1, n, kind: "text", data: { text }, offset, ...more },
});

it("after a reconnect the half that was seen goes when the whole row comes", () => {
  const log = new Log();
  const at120 = play([live(1, "half a mess", 0)]);
  expect(provisionalText(at120.provisional.r!)).toBe("half a mess");
  const row = rowOf(log.append("thread-t", "thread.turn_completed", { run_id: "r", turn: 1, attempt: 1, agent: "a", model: "m", finish_reason: "stop" }, { text: "half a message" }));
  const after = play([{ type: "page", entries: [row] }], at120);
  expect(after.provisional).toEqual({});
  expect(shownRows(after).map((r) => (r.kind === "assistant" ? r.item.text : ""))).toEqual(["half a message"]);
  expect(play([live(2, "age", 11)], after)).toEqual(after); // too late
});

it("after a reconnect it goes on from future frames where the message goes on, with a gap where some were missed", () => {
  const state = play([live(1, "one ", 0), live(2, "two ", 4), live(7, "six ", 20), live(8, "seven", 24)]);
  expect(state.provisional.r!.parts).toEqual([
    { offset: 0, text: "one two " },
    { offset: 20, text: "six seven" },
  ]);
  expect(provisionalText(state.provisional.r!)).toBe("one two …six seven");
  expect(provisionalText(play([live(7, "six ", 20)]).provisional.r!)).toBe("…six ");
});

it("another worker that takes the attempt over begins anew; a further attempt replaces the one before", () => {
  const taken = play([live(1, "abc", 0), live(2, "def", 3), live(1, "xyz", 0)]);
  expect(provisionalText(taken.provisional.r!)).toBe("xyz");
  // A frame that is told twice is not another worker.
  expect(play([live(2, "def", 3)], play([live(1, "abc", 0), live(2, "def", 3)])).provisional.r!.parts).toEqual([{ offset: 0, text: "abcdef" }]);
  const further = play([live(1, "new", 0, { attempt: 2 }), live(3, "old", 3)], taken);
  expect(provisionalText(further.provisional.r!)).toBe("new");
});

it("a row with objects in its text waits for its formatted form, and takes it", () => {
  const log = new Log();
  const event = log.append("thread-t", "thread.turn_completed", { run_id: "r", turn: 1, attempt: 1, agent: "a", model: "m", finish_reason: "stop" }, { text: '{"type":"text","content":"hi"}' });
  const state = play([{ type: "event", event }]);
  expect(state.rows[0]!.unformatted).toBe(true);
  const formatted = { ...rowOf(event), item: { ...rowOf(event).item, text: "hi" } } as Row;
  delete formatted.unformatted;
  const shown = play([{ type: "page", entries: [formatted] }, { type: "event", event }], state);
  expect(shown.rows).toEqual([formatted]);
});
