// What a call may name.

/** The columns of each table that a call may set, without id, createdAt and updatedAt. */
export const tables: ReadonlyMap<string, readonly string[]> = new Map([
  ["tasks", ["projectId", "title", "description", "status", "priority", "assignee", "dueDate", "isAiSuggested", "isApproved"]],
  ["projects", ["clientId", "name", "status", "aiSummary"]],
  ["checkpoints", ["projectId", "title", "date", "isAiSuggested", "isApproved"]],
  ["notes", ["projectId", "title", "content"]],
  ["taskComments", ["taskId", "author", "content"]],
  ["clients", ["parentId", "name", "industry"]],
]);

/** The columns that the filter `search` looks into. */
export const searched: ReadonlyMap<string, readonly string[]> = new Map([
  ["tasks", ["title", "description"]],
  ["projects", ["name", "aiSummary"]],
  ["checkpoints", ["title"]],
  ["notes", ["title", "content"]],
  ["taskComments", ["content"]],
  ["clients", ["name", "industry"]],
]);
