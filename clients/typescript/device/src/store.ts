// The device's file: six tables, the vectors, the journal, and what the client keeps. It knows nothing of frames or sockets.
import Database from "better-sqlite3";
import { randomUUID } from "node:crypto";
import { closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import type { Answer, JournalEntry } from "@cairnhq/client";
import type { Row } from "./call.js";
import { additions, schema, schemaVersion } from "./schema.js";
import { tables } from "./tables.js";

const day = 24 * 60 * 60 * 1000;
/** How long an acknowledged entry of the journal stays. */
const keepAcknowledged = 7 * day;

/** A device's SQLite file. Only one process may have it open. */
export class Store {
  readonly db: Database.Database;
  readonly now: () => number;

  /** Opens or makes the file; ":memory:" keeps nothing. */
  constructor(path: string, now: () => number = Date.now) {
    this.now = now;
    if (path !== ":memory:") {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      closeSync(openSync(path, "a", 0o600)); // nobody else reads a person's data
    }
    this.db = new Database(path, { timeout: 5000 });
    try {
      this.#migrate();
    } catch (error) {
      this.db.close();
      throw error;
    }
  }

  #migrate(): void {
    this.db.pragma("journal_mode = WAL");
    this.db.pragma("synchronous = FULL"); // what was answered to the backend survives a power cut
    this.transaction(() => {
      const version = this.db.pragma("user_version", { simple: true }) as number;
      if (version > schemaVersion) throw new Error(`the file ${this.db.name} was written by a newer version of the device: use that one`);
      if (version === 0) this.db.exec(schema);
      this.db.exec(additions);
      const columns = this.db.pragma("table_info(journal)") as { name: string }[];
      // Which frame answers: a file of a device that did not say so has tool calls only.
      if (!columns.some(({ name }) => name === "type")) this.db.exec("ALTER TABLE journal ADD COLUMN type TEXT NOT NULL DEFAULT 'tool_call'");
      this.db.prepare("DELETE FROM journal WHERE acknowledgedAt < ?").run(this.now() - keepAcknowledged);
    });
  }

  /** Does what it is given in one transaction, or nothing of it. */
  transaction<T>(work: () => T): T {
    return this.db.transaction(work).immediate();
  }

  /** All rows of a table, the oldest first. */
  rows(table: string): Row[] {
    if (!tables.has(table)) throw new Error(`there is no table ${JSON.stringify(table)}: there are ${[...tables.keys()].join(", ")}`);
    return this.db.prepare(`SELECT * FROM ${table} ORDER BY createdAt, rowid`).all() as Row[];
  }

  /** The device's own id, made once and kept in the file. */
  identity(): string {
    this.db.prepare("INSERT INTO identity (one, deviceId) VALUES (1, ?) ON CONFLICT DO NOTHING").run(randomUUID());
    return this.db.prepare("SELECT deviceId FROM identity WHERE one = 1").pluck().get() as string;
  }

  /** What was answered to a call, undefined where it is not known. */
  answered(id: string): Answer | undefined {
    const text = this.db.prepare("SELECT answer FROM journal WHERE callId = ?").pluck().get(id) as string | undefined;
    return text === undefined ? undefined : (JSON.parse(text) as Answer);
  }

  /** Writes an answer into the journal, unless that call has one. */
  note(id: string, type: JournalEntry["call"], answer: Answer): void {
    this.db
      .prepare("INSERT INTO journal (callId, answer, answeredAt, type) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING")
      .run(id, JSON.stringify(answer), this.now(), type);
  }

  /** The backend has recorded the answer to a call. */
  acknowledge(id: string): void {
    this.db.prepare("UPDATE journal SET acknowledgedAt = ? WHERE callId = ? AND acknowledgedAt IS NULL").run(this.now(), id);
  }

  /** Answers that the backend has not acknowledged, the oldest first. */
  unacknowledged(): JournalEntry[] {
    const found = this.db.prepare("SELECT callId AS id, type AS call, answer FROM journal WHERE acknowledgedAt IS NULL ORDER BY answeredAt, rowid").all();
    return (found as { id: string; call: JournalEntry["call"]; answer: string }[]).map((entry) => ({ ...entry, answer: JSON.parse(entry.answer) as Answer }));
  }

  close(): void {
    this.db.close();
  }
}
