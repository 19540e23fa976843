-- One row a thread. The title's event is named by its place; the text stays sealed in events.

-- tables

CREATE TABLE {threads} (
    scope          text COLLATE "C" NOT NULL,
    thread         text COLLATE "C" NOT NULL,
    created_at     timestamptz NOT NULL,
    last_activity  timestamptz NOT NULL,
    messages       bigint NOT NULL,
    active_run     text,
    head           bigint NOT NULL,
    title_version  bigint NOT NULL,
    title_position bigint NOT NULL
);

-- key

ALTER TABLE {threads} ADD PRIMARY KEY (scope, thread);

-- indexes

CREATE INDEX {threads}_by_activity ON {threads} (scope, last_activity, thread);
