// A model server that nobody at Cairn wrote (npm's @copilotkit/aimock), scripted to route, to call tools and
// to answer from what the tools returned. Prints its base URL as the first line; ends with its standard input.
import { LLMock } from "@copilotkit/aimock";

const text = (content) =>
  typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");
const lastUser = (messages) => messages.findLastIndex((m) => m.role === "user");
const asked = (req) => text(req.messages[lastUser(req.messages)]?.content);
const results = (req) => req.messages.slice(lastUser(req.messages) + 1).filter((m) => m.role === "tool");
const hasTool = (req, name) => (req.tools ?? []).some((tool) => tool.function?.name === name);

const mock = new LLMock({ port: 0, chunkSize: 7, logLevel: "warn" });
const on = (predicate, response) => mock.on({ predicate }, response);

// The router is asked without tools.
on((req) => !req.tools?.length && /note/i.test(asked(req)), { content: "note_agent" });
on((req) => !req.tools?.length, { content: "task_agent" });

on((req) => hasTool(req, "create_task") && /create a task/i.test(asked(req)) && results(req).length === 0, {
  toolCalls: [
    { name: "create_task", arguments: { title: "Buy milk", priority: "high", due_date: "tomorrow" } },
  ],
});
on((req) => /create a task/i.test(asked(req)) && results(req).length > 0, {
  content: '{"type":"text","content":"Buy milk is on your list."}',
});

on((req) => hasTool(req, "list_tasks") && /how many todo/i.test(asked(req)) && results(req).length === 0, {
  toolCalls: [{ name: "list_tasks", arguments: { status: "todo" } }],
});
on((req) => /how many todo/i.test(asked(req)) && /Buy milk/.test(text(results(req)[0]?.content)), {
  content: '{"type":"text","content":"You have 1 todo task: Buy milk."}',
});

on((req) => hasTool(req, "create_note") && /write a note/i.test(asked(req)) && results(req).length === 0, {
  toolCalls: [{ name: "create_note", arguments: { title: "Door", content: "The door code is 4711." } }],
});
on((req) => /write a note/i.test(asked(req)) && results(req).length > 0, { content: "Noted." });

await mock.start();
console.log(`${mock.url}/v1`);
process.stdin.resume();
process.stdin.on("end", async () => {
  await mock.stop();
  process.exit(0);
});
