// What the command is told.
import { homedir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

export const usage = `cairn-device [MESSAGE…]

A device in a terminal: its user's data is in a SQLite file, and what it means in a folder beside it. It does what the backend
asks of it, asks each MESSAGE, or without one each line that is typed (/new begins another thread, /quit ends).

  --url URL         of the backend (CAIRN_URL; http://127.0.0.1:8700)
  --email EMAIL     log in as; the session is kept in the file, so it is needed once
  --register EMAIL  make an account, and log in
  --db FILE         the device's file (~/.cairn/device.db)
  --thread ID       go on with this thread
  --name NAME       of the device (the machine's)
  --timezone ZONE   IANA name (the machine's)
  --stay            stay connected, and do calls, when there is nothing more to ask
  --follow          show everything that is committed for this account, from where it was shown before
  --json            frames and answers as JSON, one a line
  --help            this text

The password is taken from CAIRN_PASSWORD.
`;

export interface Options {
  messages: string[];
  url: string;
  email?: string | undefined;
  register?: string | undefined;
  password?: string | undefined;
  db: string;
  thread?: string | undefined;
  name?: string | undefined;
  timezone?: string | undefined;
  stay: boolean;
  follow: boolean;
  json: boolean;
}

/** Reads the command line; what is wrong with it is an error that says so. */
export function options(args: string[], env: Record<string, string | undefined>): Options | "help" {
  const text = { type: "string" } as const;
  const flag = { type: "boolean", default: false } as const;
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { url: text, email: text, register: text, db: text, thread: text, name: text, timezone: text, stay: flag, follow: flag, json: flag, help: { ...flag, short: "h" } },
  });
  if (values.help) return "help";
  const url = values.url ?? env["CAIRN_URL"] ?? "http://127.0.0.1:8700";
  if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : "")) throw new Error(`--url ${url}: it must begin with http:// or https://`);
  if (values.email !== undefined && values.register !== undefined) throw new Error("--email logs in and --register makes an account: say one of them");
  return {
    messages: positionals,
    url,
    email: values.email,
    register: values.register,
    password: env["CAIRN_PASSWORD"],
    db: values.db ?? join(homedir(), ".cairn", "device.db"),
    thread: values.thread,
    name: values.name,
    timezone: values.timezone,
    stay: values.stay,
    follow: values.follow,
    json: values.json,
  };
}
