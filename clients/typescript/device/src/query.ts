// A select's filters as SQL. Names come from the tables' own columns only, values are bound.
import { type Call, CallError, fields } from "./call.js";
import { searched, tables } from "./tables.js";

/** What SQLite takes: JSON's true and false are 1 and 0, whole numbers are integers, lists and objects are their JSON. */
export type Bound = string | number | bigint | null;

export function bound(value: unknown): Bound {
  switch (typeof value) {
    case "boolean":
      return value ? 1n : 0n;
    case "number":
      return Number.isSafeInteger(value) ? BigInt(value) : value;
    case "string":
      return value;
  }
  return value === null || value === undefined ? null : JSON.stringify(value);
}

export interface Conditions {
  where: string;
  order: string;
  values: Bound[];
}

/** A filter that the table can't have is an error in words. */
export function conditions(table: string, call: Call): Conditions {
  const columns = tables.get(table)!;
  const filters = call.filters === undefined ? {} : fields(call.filters, "filters");
  const parts: string[] = [];
  const values: Bound[] = [];
  let order = " ORDER BY createdAt, rowid";
  for (const name of Object.keys(filters).sort()) {
    const value = bound(filters[name]);
    if (value === null) throw new CallError(`filter ${name} is null; absent filters are left out`);
    switch (name) {
      case "search": {
        const pattern = `%${String(value).replace(/[\\%_]/g, "\\$&")}%`;
        const into = searched.get(table)!;
        parts.push(`(${into.map((column) => `${column} LIKE ? ESCAPE '\\'`).join(" OR ")})`);
        values.push(...into.map(() => pattern));
        break;
      }
      case "dueDateFrom":
      case "dueDateTo":
        if (table !== "tasks") throw new CallError(`${table} has no dueDate`);
        parts.push(`dueDate ${name === "dueDateFrom" ? ">=" : "<="} ?`);
        values.push(value);
        break;
      case "includeArchived":
        if (table === "projects" && !truthy(filters[name])) parts.push("status <> 'archived'");
        break;
      case "orderBy":
        order = ordering(table, String(value));
        break;
      default:
        if (name !== "id" && !columns.includes(name)) throw new CallError(`${table} can't be filtered by ${JSON.stringify(name)}`);
        parts.push(`${name} = ?`);
        values.push(value);
    }
  }
  const limit = whole(call.limit);
  if (limit > 0) order += ` LIMIT ${limit}`;
  return { where: parts.length > 0 ? ` WHERE ${parts.join(" AND ")}` : "", order, values };
}

/** A call's limit, 0 where there is none. */
export function whole(limit: unknown): number {
  if (limit === undefined || limit === null) return 0;
  if (!Number.isSafeInteger(limit)) throw new CallError("limit is not a whole number");
  return limit as number;
}

function truthy(value: unknown): boolean {
  return !(value === 0 || value === false || value === "0" || value === "false" || value === "");
}

// "dueDate", "dueDate desc" or "-dueDate", in camelCase or snake_case.
function ordering(table: string, text: string): string {
  const [first = "", ...rest] = text.trim().split(" ");
  let direction = rest.join(" ").trim().toUpperCase() || "ASC";
  let column = first;
  if (column.startsWith("-")) {
    column = column.slice(1);
    direction = "DESC";
  }
  column = column.replace(/_+(.?)/g, (_, letter: string) => letter.toUpperCase());
  const own = column === "createdAt" || (column === "updatedAt" && table === "notes") || tables.get(table)!.includes(column);
  if (!own) throw new CallError(`${table} can't be ordered by ${JSON.stringify(column)}`);
  if (direction !== "ASC" && direction !== "DESC") throw new CallError(`orderBy ${JSON.stringify(text)}: say asc or desc`);
  if (column === "priority") column = "CASE priority WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END";
  return ` ORDER BY ${column} ${direction} NULLS LAST, createdAt, rowid`;
}
