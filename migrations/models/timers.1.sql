-- Wishes to be woken. due is decided_at and the wait; it is compared with cairn_now().

-- tables

CREATE TABLE {timers} (
    scope      text COLLATE "C" NOT NULL,
    stream     text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    grp        text COLLATE "C" NOT NULL,
    due        timestamptz NOT NULL,
    position   bigint NOT NULL,
    era        integer NOT NULL,
    partition  integer NOT NULL,
    log_offset bigint NOT NULL
);

-- key

ALTER TABLE {timers} ADD PRIMARY KEY (scope, stream, id);

-- indexes

CREATE INDEX {timers}_by_due ON {timers} (due);
CREATE INDEX {timers}_by_group ON {timers} (scope, grp);
