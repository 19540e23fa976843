-- +goose Up

-- Work table: the processes that run, and the format level that each can read. A process writes its row when it
-- starts and every few seconds; one that was silent for a minute does not run any more.
CREATE TABLE processes (
    process    text COLLATE "C" PRIMARY KEY, -- drawn at random at each start
    version    text NOT NULL,
    roles      text NOT NULL,
    host       text NOT NULL,
    level      integer NOT NULL,
    started_at timestamptz NOT NULL,
    touched_at timestamptz NOT NULL
);
