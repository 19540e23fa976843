import { defineConfig } from "tsdown";

export default defineConfig({
  entry: ["src/index.ts", "src/file.ts"],
  format: ["esm", "cjs"],
  platform: "neutral",
  dts: true,
  external: [/^node:/],
});
