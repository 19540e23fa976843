// The file's tables. The first part is that of every device of ours, whatever it is written in: a file may change hands.

/** The user's data, the vectors, the journal and the device's id: the same text as clients/device/schema.sql. */
export const schema = `-- The user's data, as the protocol names it (camelCase on the wire and here).
CREATE TABLE projects (
    id        TEXT PRIMARY KEY,
    clientId  TEXT,
    name      TEXT NOT NULL CHECK (name <> ''),
    status    TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'archived')),
    aiSummary TEXT,
    createdAt INTEGER NOT NULL
) STRICT;

CREATE TABLE tasks (
    id            TEXT PRIMARY KEY,
    projectId     TEXT,
    title         TEXT NOT NULL CHECK (title <> ''),
    description   TEXT,
    status        TEXT NOT NULL DEFAULT 'todo' CHECK (status IN ('todo', 'in_progress', 'done')),
    priority      TEXT NOT NULL DEFAULT 'medium' CHECK (priority IN ('high', 'medium', 'low')),
    assignee      TEXT CHECK (assignee IS NULL OR (json_valid(assignee) AND json_type(assignee) = 'array')),
    dueDate       INTEGER,
    isAiSuggested INTEGER NOT NULL DEFAULT 0 CHECK (isAiSuggested IN (0, 1)),
    isApproved    INTEGER NOT NULL DEFAULT 0 CHECK (isApproved IN (0, 1)),
    createdAt     INTEGER NOT NULL
) STRICT;

CREATE TABLE checkpoints (
    id            TEXT PRIMARY KEY,
    projectId     TEXT NOT NULL CHECK (projectId <> ''),
    title         TEXT NOT NULL CHECK (title <> ''),
    date          INTEGER,
    isAiSuggested INTEGER NOT NULL DEFAULT 0 CHECK (isAiSuggested IN (0, 1)),
    isApproved    INTEGER NOT NULL DEFAULT 0 CHECK (isApproved IN (0, 1)),
    createdAt     INTEGER NOT NULL
) STRICT;

CREATE TABLE notes (
    id        TEXT PRIMARY KEY,
    projectId TEXT,
    title     TEXT NOT NULL CHECK (title <> ''),
    content   TEXT,
    createdAt INTEGER NOT NULL,
    updatedAt INTEGER NOT NULL
) STRICT;

CREATE TABLE taskComments (
    id        TEXT PRIMARY KEY,
    taskId    TEXT NOT NULL,
    author    TEXT,
    content   TEXT NOT NULL,
    createdAt INTEGER NOT NULL
) STRICT;

CREATE TABLE clients (
    id        TEXT PRIMARY KEY,
    parentId  TEXT,
    name      TEXT NOT NULL CHECK (name <> ''),
    industry  TEXT,
    createdAt INTEGER NOT NULL
) STRICT;

-- The vector store: 32-bit floats, little endian.
CREATE TABLE vectors (
    id        TEXT PRIMARY KEY,
    projectId TEXT,
    content   TEXT NOT NULL,
    vector    BLOB NOT NULL
) STRICT;

-- What was answered to which call, written in the transaction that did it: a call offered again is
-- answered from here. An entry stays until the backend acknowledged it, and a week more.
CREATE TABLE journal (
    callId         TEXT PRIMARY KEY,
    answer         TEXT NOT NULL,
    answeredAt     INTEGER NOT NULL,
    acknowledgedAt INTEGER
) STRICT;

CREATE INDEX journal_unacknowledged ON journal (answeredAt) WHERE acknowledgedAt IS NULL;

CREATE TABLE identity (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    deviceId TEXT NOT NULL
) STRICT;

PRAGMA user_version = 1;
`;

/** What a file says of itself in user_version; a newer one is refused. */
export const schemaVersion = 1;

/**
 * What this device adds. LanceDB is an index of `vectors` and no part of its transactions: which rows it has not seen yet is
 * written by triggers, in the transaction that changes the row, whoever changes it.
 */
export const additions = `
CREATE TABLE IF NOT EXISTS vectorChanges (
    serial INTEGER PRIMARY KEY AUTOINCREMENT,
    id     TEXT NOT NULL
) STRICT;
CREATE TRIGGER IF NOT EXISTS vectors_inserted AFTER INSERT ON vectors BEGIN INSERT INTO vectorChanges (id) VALUES (new.id); END;
CREATE TRIGGER IF NOT EXISTS vectors_updated AFTER UPDATE ON vectors BEGIN INSERT INTO vectorChanges (id) VALUES (new.id); END;
CREATE TRIGGER IF NOT EXISTS vectors_deleted AFTER DELETE ON vectors BEGIN INSERT INTO vectorChanges (id) VALUES (old.id); END;

-- What the client keeps: cursors, the outbox, tokens.
CREATE TABLE IF NOT EXISTS storage (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`;
