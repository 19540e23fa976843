// Makes better-sqlite3's binary where there is none. Installing runs no scripts (.npmrc): Electron's would fetch a program
// that nothing here starts, and this one needs to know where Node's headers are.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const require = createRequire(import.meta.url);
const Database = require("better-sqlite3");
try {
  new Database(":memory:").close();
} catch {
  const prefix = dirname(dirname(process.execPath));
  const headers = existsSync(join(prefix, "include", "node", "node.h")) ? { npm_config_nodedir: prefix } : {};
  console.log("better-sqlite3 is compiled: this takes a minute or two, once");
  // -O1 compiles in a third of the time; a device waits for its disk, and not for its processor.
  const env = { CFLAGS: "-O1", CXXFLAGS: "-O1", JOBS: "max", ...process.env, ...headers };
  const options = { env, stdio: ["ignore", "pipe", "pipe"], encoding: "utf8", shell: process.platform === "win32" };
  try {
    execFileSync("npm", ["rebuild", "better-sqlite3", "--ignore-scripts=false"], options);
    new Database(":memory:").close();
  } catch (error) {
    console.error(`${error.stdout ?? ""}${error.stderr ?? ""}`);
    console.error("better-sqlite3 could not be compiled: it needs Python 3, make, a C++ compiler and Node's headers (on Debian: deploy/setup.sh typescript)");
    process.exit(1);
  }
}
