// cairn-device: a device in a terminal. It does the backend's calls, asks what is typed, and shows what happens.
import { hostname } from "node:os";
import { createInterface } from "node:readline";
import { AskError, type Asked, type AskResult, type Client, createClient } from "@cairnhq/client";
import WebSocket from "ws";
import { options, type Options, usage } from "./options.js";
import { openDevice } from "./open.js";
import { Screen } from "./screen.js";

async function run(o: Options): Promise<void> {
  const screen = new Screen(process.stdout, o.json, o.messages.length === 0 && process.stdin.isTTY);
  const device = await openDevice({ db: o.db, onIndexError: (error) => screen.warn(`the vectors' index: ${String(error)}`) });
  const client = createClient({
    url: o.url,
    storage: device.storage,
    WebSocket,
    device: {
      id: device.id,
      name: o.name ?? hostname(),
      ...(o.timezone === undefined ? {} : { timezone: o.timezone }),
      executor: device.executor,
      onAnswer: (call, answer) => screen.did(call, answer),
      onError: (error, call) => screen.warn(`${call ? `${call.action} ${call.table ?? ""}: ` : ""}${String(error)}`),
    },
  });
  try {
    await enter(client, o);
    await connected(client, o, screen);
  } finally {
    await client.close();
    await device.close();
    process.stdin.destroy(); // whoever holds the other end of it must not hold this process
  }
}

async function enter(client: Client, o: Options): Promise<void> {
  const email = o.register ?? o.email;
  if (email === undefined) {
    if (await client.auth.tokens()) return;
    throw new Error("nobody is logged in: make an account with --register EMAIL, or log in with --email EMAIL");
  }
  if (!o.password) throw new Error("there is no password: set CAIRN_PASSWORD");
  await (o.register === undefined ? client.auth.logIn(email, o.password) : client.auth.register(email, o.password));
}

// Until there is nothing more to ask, somebody wants to stop, or the backend says that it must end.
async function connected(client: Client, o: Options, screen: Screen): Promise<void> {
  let stop!: () => void;
  let fail!: (why: Error) => void;
  const ended = new Promise<void>((resolve, reject) => {
    stop = resolve;
    fail = reject;
  });
  ended.catch(() => undefined);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
  client.socket.onState((state, why) => {
    if (why) fail(why);
    else screen.state(state);
  });
  client.connect();
  if (o.follow) void follow(client, screen).catch(fail);
  await Promise.race([ended, talk(client, o, screen).then(() => (o.stay ? ended : undefined))]);
}

// Everything that is committed for this account, checked against its chain. It goes on where it was when the program ended.
async function follow(client: Client, screen: Screen): Promise<void> {
  const { data } = await client.api.GET("/api/v1/me");
  for await (const item of client.subscribe({ scope: data!.scope, after: 0, name: "follow" })) screen.item(item);
}

async function talk(client: Client, o: Options, screen: Screen): Promise<void> {
  let thread = o.thread;
  // What an earlier process asked, and did not see the end of.
  for (const asked of await client.pending()) await shown(asked, screen).catch(refused(screen));
  if (o.messages.length > 0) {
    for (const message of o.messages) {
      const end = await turn(client, screen, message, thread);
      if (end.error) throw new AskError(end.error.code, end.error.message);
      thread = end.sessionId ?? thread;
    }
    return;
  }
  screen.prompt();
  for await (const text of createInterface({ input: process.stdin })) {
    const message = text.trim();
    screen.typed();
    if (message === "/quit" || message === "/exit") return;
    if (message === "/new") thread = undefined;
    else if (message !== "") {
      const end = await turn(client, screen, message, thread).catch(refused(screen));
      thread = end?.sessionId ?? thread;
    }
    screen.prompt();
  }
}

function turn(client: Client, screen: Screen, message: string, thread: string | undefined): Promise<AskResult> {
  return shown(client.ask({ message, ...(thread === undefined ? {} : { sessionId: thread }) }), screen);
}

async function shown(asked: Asked, screen: Screen): Promise<AskResult> {
  for await (const frame of asked) screen.show(frame);
  const end = await asked.result;
  screen.done(end);
  return end;
}

// A refusal ends the request only.
function refused(screen: Screen): (error: unknown) => void {
  return (error) => {
    if (!(error instanceof AskError)) throw error;
    screen.failed(error);
  };
}

try {
  const o = options(process.argv.slice(2), process.env);
  if (o === "help") process.stdout.write(usage);
  else await run(o);
} catch (error) {
  process.stderr.write(`cairn-device: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
