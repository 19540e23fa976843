import { defineConfig } from "tsdown";

export default defineConfig([
  { entry: ["src/main.ts"], format: ["esm"], platform: "node", fixedExtension: false, deps: { neverBundle: ["electron"] }, dts: false },
  // A sandboxed preload script is CommonJS.
  { entry: ["src/preload.ts"], format: ["cjs"], platform: "node", deps: { neverBundle: ["electron"] }, dts: false },
  { entry: ["src/window.ts"], format: ["esm"], platform: "browser", deps: { alwaysBundle: [/.*/] }, dts: false },
]);
