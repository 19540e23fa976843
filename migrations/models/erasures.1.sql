-- Scopes that were erased: applied to the vault again after it was restored.

-- tables

CREATE TABLE {erasures} (
    scope     text COLLATE "C" NOT NULL,
    erased_at timestamptz NOT NULL,
    position  bigint NOT NULL,
    partition integer NOT NULL,
    log_offset bigint NOT NULL
);

-- key

ALTER TABLE {erasures} ADD PRIMARY KEY (scope);
