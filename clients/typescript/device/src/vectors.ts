// The index of the vectors: LanceDB tables, one for each length, made from the file's table `vectors` and made again where
// they are lost. It is behind the file by what `vectorChanges` lists, and catches up before it is asked.
import { connect, type Connection, type Table } from "@lancedb/lancedb";
import { Field, FixedSizeList, Float32, Schema, Utf8 } from "apache-arrow";
import type { Store } from "./store.js";
import { unpacked } from "./vector.js";

/** A row of the vector store and its cosine similarity. */
export interface Nearest {
  id: string;
  content: string;
  score: number;
}

interface Indexed {
  id: string;
  projectId: string | null;
  content: string;
  vector: Float32Array;
}

const batch = 256;
// Each write of LanceDB leaves a file and a version behind; so many are put together.
const compactAfter = 64;

export class Vectors {
  readonly #store: Store;
  readonly #connection: Connection;
  readonly #tables = new Map<number, Table>();
  // One write after the other.
  #tail: Promise<void> = Promise.resolve();
  #writes = 0;

  private constructor(store: Store, connection: Connection) {
    this.#store = store;
    this.#connection = connection;
  }

  /** Opens the index in a folder, and brings it level with the file. */
  static async open(store: Store, folder: string): Promise<Vectors> {
    const vectors = new Vectors(store, await connect(folder));
    await vectors.#restore();
    await vectors.catchUp();
    return vectors;
  }

  async #restore(): Promise<void> {
    for (const name of await this.#connection.tableNames()) {
      const length = Number(/^vectors_(\d+)$/.exec(name)?.[1]);
      if (length > 0) this.#tables.set(length, await this.#connection.openTable(name));
    }
    let indexed = 0;
    for (const table of this.#tables.values()) indexed += await table.countRows();
    const changed = this.#store.db.prepare("SELECT count(*) FROM vectorChanges").pluck().get() as number;
    const kept = this.#store.db.prepare("SELECT count(*) FROM vectors").pluck().get() as number;
    if (indexed === kept || changed > 0) return;
    // The folder was lost or is another's: the file has everything.
    for (const length of this.#tables.keys()) await this.#connection.dropTable(nameOf(length));
    this.#tables.clear();
    this.#store.db.exec("INSERT INTO vectorChanges (id) SELECT id FROM vectors");
  }

  /** Resolves when everything that is committed in the file is in the index. What fails is tried again at the next call. */
  catchUp(): Promise<void> {
    const caught = this.#tail.then(() => this.#drain());
    this.#tail = caught.catch(() => undefined);
    return caught;
  }

  async #drain(): Promise<void> {
    const changes = this.#store.db.prepare(`SELECT serial, id FROM vectorChanges ORDER BY serial LIMIT ${batch}`);
    const current = this.#store.db.prepare("SELECT id, projectId, content, vector FROM vectors WHERE id = ?");
    const done = this.#store.db.prepare("DELETE FROM vectorChanges WHERE serial <= ?");
    for (;;) {
      const next = changes.all() as { serial: number; id: string }[];
      const last = next.at(-1);
      if (!last) return;
      const ids = [...new Set(next.map(({ id }) => id))];
      const rows = ids.map((id) => current.get(id) as (Omit<Indexed, "vector"> & { vector: Buffer }) | undefined);
      await this.#write(ids, rows.flatMap((row) => (row ? [{ ...row, vector: unpacked(row.vector) }] : [])));
      done.run(last.serial);
    }
  }

  // The rows as they are now, so writing them twice, or some of them after a crash, comes to the same.
  async #write(ids: string[], rows: Indexed[]): Promise<void> {
    const lengths = new Map<number, Indexed[]>();
    for (const row of rows) lengths.set(row.vector.length, [...(lengths.get(row.vector.length) ?? []), row]);
    for (const length of lengths.keys()) await this.#table(length);
    for (const [length, table] of this.#tables) {
      const here = lengths.get(length) ?? [];
      const kept = new Set(here.map(({ id }) => id));
      const gone = ids.filter((id) => !kept.has(id));
      if (gone.length > 0) await table.delete(`id IN (${gone.map(quoted).join(", ")})`);
      if (here.length > 0) {
        const values = here.map((row) => ({ ...row, vector: Array.from(row.vector) }));
        await table.mergeInsert("id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(values);
      }
      if (++this.#writes % compactAfter === 0) await table.optimize({ cleanupOlderThan: new Date(this.#store.now()) });
    }
  }

  async #table(length: number): Promise<Table> {
    let table = this.#tables.get(length);
    if (!table) {
      const item = new Field("item", new Float32(), true);
      const schema = new Schema([
        new Field("id", new Utf8(), false),
        new Field("projectId", new Utf8(), true),
        new Field("content", new Utf8(), false),
        new Field("vector", new FixedSizeList(length, item), false),
      ]);
      table = await this.#connection.createEmptyTable(nameOf(length), schema);
      this.#tables.set(length, table);
    }
    return table;
  }

  /** The nearest rows by cosine, the best first. Vectors of another length are of another embedder, and not compared. */
  async search(vector: Float32Array, limit: number, projectId?: string): Promise<Nearest[]> {
    await this.catchUp();
    const table = this.#tables.get(vector.length);
    if (!table || limit <= 0) return [];
    let query = table.vectorSearch(vector).distanceType("cosine").select(["id", "content", "_distance"]).limit(limit);
    if (projectId !== undefined) query = query.where(`\`projectId\` = ${quoted(projectId)}`);
    const found = (await query.toArray()) as { id: string; content: string; _distance: number }[];
    return found
      .map(({ id, content, _distance }) => ({ id, content, score: 1 - _distance }))
      .sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1));
  }

  async close(): Promise<void> {
    await this.#tail;
    for (const table of this.#tables.values()) table.close();
    this.#connection.close();
  }
}

function nameOf(length: number): string {
  return `vectors_${length}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
