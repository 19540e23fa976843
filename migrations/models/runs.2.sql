-- One row a run: what it did, in ids, counts and times. record is the fold itself. New: agent, for the runs of an agent.

-- tables

CREATE TABLE {runs} (
    scope      text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    thread     text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,     -- of the event it began with: a thread's runs in order
    status     text NOT NULL,
    agent      text COLLATE "C" NOT NULL, -- that answers; empty: none was chosen yet
    created_at timestamptz NOT NULL,
    record     bytea NOT NULL     -- JSON
);

-- key

ALTER TABLE {runs} ADD PRIMARY KEY (scope, run);

-- indexes

CREATE INDEX {runs}_by_thread ON {runs} (scope, thread, version);
CREATE INDEX {runs}_waiting ON {runs} (scope) WHERE status = 'waiting';
CREATE INDEX {runs}_by_agent ON {runs} (scope, agent, created_at, run);
