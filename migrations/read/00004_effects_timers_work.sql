-- +goose Up

-- Intents without outcome.
CREATE TABLE open_effects (
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
    PRIMARY KEY (scope, id)
);
CREATE INDEX open_effects_by_group ON open_effects (scope, grp);
CREATE INDEX open_effects_by_device ON open_effects (scope, device) WHERE device <> '';
CREATE INDEX open_effects_by_place ON open_effects (partition, log_offset);

-- Wishes to be woken. due is decided_at and the wait; it is compared with cairn_now().
CREATE TABLE timers (
    scope      text COLLATE "C" NOT NULL,
    stream     text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    grp        text COLLATE "C" NOT NULL,
    due        timestamptz NOT NULL,
    position   bigint NOT NULL,
    era        integer NOT NULL,
    partition  integer NOT NULL,
    log_offset bigint NOT NULL,
    PRIMARY KEY (scope, stream, id)
);
CREATE INDEX timers_by_due ON timers (due);
CREATE INDEX timers_by_group ON timers (scope, grp);

-- Work tables: they may be lost without breaking a promise.

-- Life is one row per worker, touched each second; dead ten seconds after the last touch.
CREATE TABLE workers (
    worker     text COLLATE "C" PRIMARY KEY,
    touched_at timestamptz NOT NULL
);
CREATE FUNCTION cairn_alive(name text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT EXISTS (SELECT 1 FROM workers w WHERE w.worker = name AND w.touched_at > cairn_now() - interval '10 seconds') $$;

CREATE TABLE effect_claims (
    scope      text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    worker     text COLLATE "C" NOT NULL,
    claimed_at timestamptz NOT NULL,
    PRIMARY KEY (scope, id)
);

-- A timer that was fired is not due again for a minute: its event may be under way.
CREATE TABLE timer_firings (
    scope    text COLLATE "C" NOT NULL,
    stream   text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL,
    due      timestamptz NOT NULL,
    fired_at timestamptz NOT NULL,
    PRIMARY KEY (scope, stream, id)
);

-- The newest socket of each device, and which gateway (a worker) holds it; gateway is null once it closed.
CREATE TABLE device_presence (
    scope     text COLLATE "C" NOT NULL,
    device    text COLLATE "C" NOT NULL,
    gateway   text COLLATE "C",
    socket    text NOT NULL,
    journal   boolean NOT NULL,
    seen_at   timestamptz NOT NULL,
    PRIMARY KEY (scope, device)
);

-- The pause switch of effects and timers: one row for the whole installation.
CREATE TABLE effects_switch (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    paused    boolean NOT NULL,
    paused_at timestamptz
);
INSERT INTO effects_switch (paused) VALUES (false);
