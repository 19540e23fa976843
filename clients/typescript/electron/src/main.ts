// The main process: it is the device. It has the user's data, the socket and the tokens; the window has none of them.
import { join } from "node:path";
import { type Client, createClient, type TimelineFollower } from "@cairnhq/client";
import { type OpenDevice, openDevice } from "@cairnhq/device";
import { app, BrowserWindow, ipcMain, powerMonitor } from "electron";
import WebSocket from "ws";
import type { Change } from "./bridge.js";
import { SealedStorage } from "./vault.js";

const url = process.env["CAIRN_URL"] ?? "http://127.0.0.1:8700";

async function start(): Promise<void> {
  const device = await openDevice({ db: join(app.getPath("userData"), "device.db") });
  let window: BrowserWindow | undefined;
  const tell = (change: Change) => window?.webContents.send("cairn:change", change);

  const client = createClient({
    url,
    storage: new SealedStorage(device.storage),
    WebSocket,
    device: {
      id: device.id,
      name: app.getName(),
      executor: device.executor,
      // Whatever a call did, the window's rows may have changed.
      onAnswer: (call) => call.table && tell({ type: "row", table: call.table }),
      onError: (error) => console.error("a call could not be done:", error),
    },
  });
  client.socket.onState((state, why) => tell({ type: "state", state, ...(why ? { why: why.message } : {}) }));
  // A lid that was closed for days: the connection is dead long before its silence is noticed.
  powerMonitor.on("resume", () => client.socket.cut());

  serve(client, device, tell);
  if (await client.auth.tokens()) client.connect();
  end(client, device);

  window = open();
  app.on("activate", () => {
    if (BrowserWindow.getAllWindows().length === 0) window = open();
  });
}

function open(): BrowserWindow {
  const window = new BrowserWindow({
    webPreferences: { preload: join(import.meta.dirname, "preload.cjs"), contextIsolation: true, sandbox: true, nodeIntegration: false },
  });
  void window.loadFile(join(import.meta.dirname, "..", "index.html"));
  return window;
}

function serve(client: Client, device: OpenDevice, tell: (change: Change) => void): void {
  let followed: AbortController | undefined;
  ipcMain.handle("cairn:log-in", async (_, email: string, password: string) => {
    await client.auth.logIn(email, password);
    client.connect();
  });
  ipcMain.handle("cairn:ask", (_, message: string, thread?: string) => client.ask({ message, ...(thread === undefined ? {} : { sessionId: thread }) }).result);
  ipcMain.handle("cairn:rows", (_, table: string) => device.store.rows(table));
  ipcMain.on("cairn:follow", (_, thread: string) => {
    followed?.abort();
    followed = new AbortController();
    void follow(client.timeline(thread, { signal: followed.signal }), thread, followed.signal, tell);
  });
}

async function follow(timelines: TimelineFollower, thread: string, signal: AbortSignal, tell: (change: Change) => void): Promise<void> {
  try {
    for await (const timeline of timelines) tell({ type: "timeline", thread, timeline });
  } catch (error) {
    if (!signal.aborted) tell({ type: "failed", thread, message: String(error) });
  }
}

// Calls in hand are done before the program ends: what they did and their answers are in the file by then.
function end(client: Client, device: OpenDevice): void {
  let ending = false;
  app.on("before-quit", (event) => {
    if (ending) return;
    ending = true;
    event.preventDefault();
    void client
      .close()
      .then(() => device.close())
      .catch((error: unknown) => console.error(error))
      .finally(() => app.quit());
  });
  app.on("window-all-closed", () => app.quit());
}

void app.whenReady().then(start).catch((error: unknown) => {
  console.error(error);
  app.exit(1);
});
