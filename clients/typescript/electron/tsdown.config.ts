import { defineConfig } from "tsdown";

export default defineConfig([
  { entry: ["src/main.ts"], format: ["esm"], platform: "node", fixedExtension: false, external: ["electron"], dts: false },
  // A sandboxed preload script is CommonJS.
  { entry: ["src/preload.ts"], format: ["cjs"], platform: "node", external: ["electron"], dts: false },
  { entry: ["src/window.ts"], format: ["esm"], platform: "browser", noExternal: [/.*/], dts: false },
]);
