import { defineConfig } from "tsdown";

const node = { platform: "node", fixedExtension: false } as const;

export default defineConfig([
  { ...node, entry: ["src/index.ts"], format: ["esm", "cjs"], dts: true },
  { ...node, entry: ["src/main.ts"], format: ["esm"], dts: false },
]);
