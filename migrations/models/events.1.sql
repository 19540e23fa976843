-- Every event of the log, content sealed. actor and data are the stored bytes, never encoded anew.

-- tables

CREATE TABLE {events} (
    scope          text COLLATE "C" NOT NULL,
    position       bigint NOT NULL,
    stream         text COLLATE "C" NOT NULL,
    version        bigint NOT NULL,
    id             text NOT NULL,
    type           text NOT NULL,
    schema         integer NOT NULL,
    at             text NOT NULL,
    actor          bytea NOT NULL,
    data           bytea NOT NULL,
    sealed         bytea,
    key            integer NOT NULL,
    seal_digest    bytea,
    hash           bytea NOT NULL,
    command_id     text NOT NULL,
    correlation_id text NOT NULL,
    causation_id   text NOT NULL,
    era            integer NOT NULL,
    partition      integer NOT NULL,
    log_offset     bigint NOT NULL,
    log_index      integer NOT NULL,
    run            text COLLATE "C"
);

-- key

ALTER TABLE {events} ADD PRIMARY KEY (scope, position);

-- indexes

-- Two events at one place of a stream are a defect of the log: the projector stops.
ALTER TABLE {events} ADD UNIQUE (scope, stream, version);
CREATE INDEX {events}_by_run ON {events} (scope, run, version) WHERE run IS NOT NULL;
