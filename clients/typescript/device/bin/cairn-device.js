#!/usr/bin/env node
// The command stands in the repository, so that it is linked by an install that comes before the first build: a name that is not linked
// would be looked for in the public registry.
try {
  await import("../dist/main.js");
} catch (error) {
  if (error?.code !== "ERR_MODULE_NOT_FOUND" || !String(error.message).includes("dist/main.js")) throw error;
  process.stderr.write("cairn-device is not built yet: run `npm run build` in clients/typescript\n");
  process.exitCode = 1;
}
