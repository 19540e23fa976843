// The window: it asks through the bridge, and shows the thread as the main process tells it.
import { provisionalText, shownRows, type Timeline } from "@cairnhq/client";
import type {} from "./bridge.js";

const { cairn } = window;
const byID = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
let thread: string | undefined;

cairn.onChange((change) => {
  if (change.type === "timeline") show(change.timeline);
  if (change.type === "state") byID("state").textContent = change.why ?? change.state;
  if (change.type === "row" && change.table === "tasks") void tasks();
  if (change.type === "failed") byID("state").textContent = change.message;
});

byID<HTMLFormElement>("login").addEventListener("submit", (event) => {
  event.preventDefault();
  const value = (id: string) => byID<HTMLInputElement>(id).value;
  cairn.logIn(value("email"), value("password")).catch((error: unknown) => (byID("state").textContent = String(error)));
});

byID<HTMLFormElement>("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const input = byID<HTMLInputElement>("message");
  const message = input.value;
  input.value = "";
  cairn
    .ask(message, thread)
    .then((end) => {
      if (end.error) byID("state").textContent = end.error.message;
      if (end.sessionId && end.sessionId !== thread) cairn.follow((thread = end.sessionId));
    })
    .catch((error: unknown) => (byID("state").textContent = String(error)));
});

function show(timeline: Timeline): void {
  const lines = shownRows(timeline).map((row) => `${row.kind}: ${JSON.stringify(row.item)}`);
  // What streams now is below what is committed, until a row takes its place.
  for (const head of Object.values(timeline.provisional)) if (head) lines.push(`… ${provisionalText(head)}`);
  byID("rows").textContent = lines.join("\n");
}

async function tasks(): Promise<void> {
  byID("tasks").textContent = (await cairn.rows("tasks")).map((row) => `${String(row["status"])}  ${String(row["title"])}`).join("\n");
}

void tasks();
