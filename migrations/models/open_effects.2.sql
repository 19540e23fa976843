-- Intents without outcome, with the traceparent of what appended each.

-- tables

CREATE TABLE {open_effects} (
    scope      text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    stream     text COLLATE "C" NOT NULL,
    kind       text NOT NULL,
    grp        text COLLATE "C" NOT NULL,
    device     text COLLATE "C" NOT NULL,
    repeatable boolean NOT NULL,
    started    boolean NOT NULL,
    version    bigint NOT NULL,
    position   bigint NOT NULL,
    event_id   text NOT NULL,
    era        integer NOT NULL,
    partition  integer NOT NULL,
    log_offset bigint NOT NULL,
    trace      text NOT NULL
);

-- key

ALTER TABLE {open_effects} ADD PRIMARY KEY (scope, id);

-- indexes

CREATE INDEX {open_effects}_by_group ON {open_effects} (scope, grp);
CREATE INDEX {open_effects}_by_device ON {open_effects} (scope, device) WHERE device <> '';
CREATE INDEX {open_effects}_by_place ON {open_effects} (partition, log_offset);
CREATE INDEX {open_effects}_of_devices ON {open_effects} (partition, log_offset) WHERE kind = 'device';
CREATE INDEX {open_effects}_started ON {open_effects} (partition, log_offset) WHERE started AND NOT repeatable;
