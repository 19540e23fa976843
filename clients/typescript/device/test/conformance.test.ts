// The cases that every device passes: clients/device/conformance says what they mean.
import { readFileSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import type { Answer, DeviceCall } from "@cairnhq/client";
import { openDevice, type OpenDevice } from "../src/index.js";

interface Step {
  call?: Record<string, unknown>;
  answer?: unknown;
  again?: boolean;
}

const cases = JSON.parse(readFileSync(new URL("../../../device/conformance/cases.json", import.meta.url), "utf8")) as { name: string; steps: Step[] }[];
let device: OpenDevice | undefined;
afterEach(async () => {
  await device?.close();
  device = undefined;
});

test("there are cases", () => expect(cases.length).toBeGreaterThan(5));

for (const { name, steps } of cases) {
  test(name, async () => {
    device = await openDevice({ db: ":memory:" });
    const names = new Map<string, string>();
    let last: { call: DeviceCall; answer: Answer } | undefined;
    for (const [i, step] of steps.entries()) {
      const where = `step ${i + 1}: ${JSON.stringify(step)}`;
      if (step.again) {
        expect(await device.executor.execute(last!.call), where).toEqual({ answer: last!.answer, repeated: true });
        continue;
      }
      const call = { ...(replaced(step.call, names) as object), type: "tool_call", id: `call.${i}` } as DeviceCall;
      const { answer, repeated } = await device.executor.execute(call);
      expect(repeated, where).toBe(false);
      compare(answer, step.answer, names, `${where}\nanswered ${JSON.stringify(answer)}`);
      last = { call, answer };
    }
  });
}

function replaced(value: unknown, names: Map<string, string>): unknown {
  if (typeof value === "string" && value.startsWith("$")) return names.get(value.slice(1));
  if (Array.isArray(value)) return value.map((item) => replaced(item, names));
  if (typeof value === "object" && value !== null) return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, replaced(item, names)]));
  return value;
}

function compare(got: unknown, want: unknown, names: Map<string, string>, where: string): void {
  if (typeof want === "string" && want.startsWith("$uuid:")) {
    expect(got, where).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
    names.set(want.slice("$uuid:".length), got as string);
  } else if (want === "$ms") expect(Number.isSafeInteger(got) && (got as number) > 0, where).toBe(true);
  else if (typeof want === "string" && want.startsWith("~")) expect(got, where).toContain(want.slice(1));
  else if (typeof want === "string" && want.startsWith("$")) expect(got, where).toBe(names.get(want.slice(1)));
  else if (typeof want === "number") expect(got, where).toBeCloseTo(want, 5);
  else if (typeof want === "object" && want !== null && typeof got === "object" && got !== null) {
    expect(Object.keys(got).sort(), where).toEqual(Object.keys(want).sort());
    for (const [key, item] of Object.entries(want)) compare((got as Record<string, unknown>)[key], item, names, where);
  } else expect(got, where).toBe(want);
}
