import { defineConfig } from "vitest/config";

// Every package's tests; `npm test` builds the packages first, as one uses another's dist.
export default defineConfig({
  test: { include: ["*/test/**/*.test.ts"], testTimeout: 60_000, hookTimeout: 60_000 },
});
