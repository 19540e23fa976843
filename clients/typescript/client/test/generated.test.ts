import { expect, it } from "vitest";
// @ts-expect-error a script without types
import { stale } from "../scripts/generate.mjs";

it("what is generated is of today's documents: else `npm run generate`", async () => {
  expect(await stale()).toEqual([]);
});
