-- +goose Up

-- One row a thread. The title's event is named by its place; the text stays sealed in events.
CREATE TABLE threads (
    scope          text COLLATE "C" NOT NULL,
    thread         text COLLATE "C" NOT NULL,
    created_at     timestamptz NOT NULL,
    last_activity  timestamptz NOT NULL,
    messages       bigint NOT NULL,
    active_run     text,
    head           bigint NOT NULL,
    title_version  bigint NOT NULL,
    title_position bigint NOT NULL,
    PRIMARY KEY (scope, thread)
);
CREATE INDEX threads_by_activity ON threads (scope, last_activity, thread);

-- One row a run: what it did, in ids, counts and times. record is the fold itself.
CREATE TABLE runs (
    scope      text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    thread     text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,     -- of the event it began with: a thread's runs in order
    status     text NOT NULL,
    created_at timestamptz NOT NULL,
    record     bytea NOT NULL,     -- JSON
    PRIMARY KEY (scope, run)
);
CREATE INDEX runs_by_thread ON runs (scope, thread, version);

-- One row a device: what its last hello said.
CREATE TABLE devices (
    scope         text COLLATE "C" NOT NULL,
    device        text COLLATE "C" NOT NULL,
    protocol      integer NOT NULL,
    timezone      text NOT NULL,
    journal       boolean NOT NULL,
    batch         boolean NOT NULL,
    introduced_at timestamptz NOT NULL,  -- the first time
    updated_at    timestamptz NOT NULL,
    version       bigint NOT NULL,       -- of the event that holds the name
    position      bigint NOT NULL,
    PRIMARY KEY (scope, device)
);

-- Scopes that were erased: applied to the vault again after it was restored.
CREATE TABLE erasures (
    scope     text COLLATE "C" PRIMARY KEY,
    erased_at timestamptz NOT NULL,
    position  bigint NOT NULL,
    partition integer NOT NULL,
    log_offset bigint NOT NULL
);
