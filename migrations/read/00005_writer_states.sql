-- +goose Up

-- What a writer keeps between batches, and the checkpoint it holds for.
CREATE TABLE writer_checkpoints (
    partition      integer PRIMARY KEY,
    next_offset    bigint NOT NULL,
    era            integer NOT NULL,
    lead           bigint NOT NULL,
    writer         text NOT NULL,
    closed         boolean NOT NULL,
    after_era      integer NOT NULL,
    command_offset bigint NOT NULL,
    updated_at     timestamptz NOT NULL
);

CREATE TABLE writer_states (
    scope   text COLLATE "C" NOT NULL,
    stream  text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    hash    bytea NOT NULL,
    fold    integer NOT NULL,
    state   bytea NOT NULL,
    PRIMARY KEY (scope, stream)
);

CREATE TABLE writer_scopes (
    scope      text COLLATE "C" PRIMARY KEY,
    position   bigint NOT NULL,
    decided_at text NOT NULL,
    erased     boolean NOT NULL
);

-- Every decided command id, kept for ever: an id that is a UUID takes 16 bytes.
CREATE TABLE answers (
    scope       text COLLATE "C" NOT NULL,
    command     bytea NOT NULL,
    fingerprint bytea NOT NULL,
    rejected    bytea,
    heads       bytea,
    position    bigint NOT NULL,
    era         integer NOT NULL,
    partition   integer NOT NULL,
    log_offset  bigint NOT NULL,
    decided_at  text NOT NULL,
    PRIMARY KEY (scope, command)
);
