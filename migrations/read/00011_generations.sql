-- +goose Up

-- A read model has generations: fillings of its tables, numbered in the order in which they were begun and named by that
-- number, such as threads_1. One is read; a swap is one UPDATE of projections. What is there becomes the first.
ALTER TABLE projections
    ADD COLUMN previous   integer,                   -- where a rollback goes
    ADD COLUMN newest     integer NOT NULL DEFAULT 1, -- the highest number that was ever given: none is given twice
    ADD COLUMN swapped_at timestamptz NOT NULL DEFAULT cairn_now(),
    ADD COLUMN paused_at  timestamptz,
    ADD COLUMN paused_by  text;

CREATE TABLE projection_generations (
    projection  text COLLATE "C" NOT NULL,
    generation  integer NOT NULL,
    revision    integer NOT NULL,   -- of the code that fills it and of the tables' shape
    lanes       integer NOT NULL,
    tables      text[] NOT NULL,    -- without the number
    shape       text NOT NULL,      -- the statements that make them
    state       text NOT NULL CHECK (state IN ('filling', 'indexing', 'feeding')),
    created_at  timestamptz NOT NULL,
    filled_at   timestamptz,
    verified_at timestamptz,
    verdict     jsonb,
    PRIMARY KEY (projection, generation)
);

-- Events that an operator made projectors step over. They hold for every generation of the projection, also later ones.
CREATE TABLE projection_skips (
    projection text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    partition  integer NOT NULL,
    log_offset bigint NOT NULL,
    reason     text NOT NULL,
    skipped_by text NOT NULL,
    skipped_at timestamptz NOT NULL,
    PRIMARY KEY (projection, event_id)
);

INSERT INTO projections (name, generation)
SELECT unnest(ARRAY['events', 'threads', 'runs', 'devices', 'erasures', 'open_effects', 'timers']), 1
    ON CONFLICT DO NOTHING;
INSERT INTO projection_generations (projection, generation, revision, lanes, tables, shape, state, created_at, filled_at)
SELECT name, 1, 1, 1, CASE WHEN to_regclass(name) IS NULL THEN '{}' ELSE ARRAY[name] END, '', 'feeding', cairn_now(), cairn_now() FROM projections;

ALTER TABLE events RENAME TO events_1;
ALTER INDEX events_pkey RENAME TO events_1_pkey;
ALTER INDEX events_scope_stream_version_key RENAME TO events_1_scope_stream_version_key;
ALTER INDEX events_by_run RENAME TO events_1_by_run;
ALTER TABLE threads RENAME TO threads_1;
ALTER INDEX threads_pkey RENAME TO threads_1_pkey;
ALTER INDEX threads_by_activity RENAME TO threads_1_by_activity;
ALTER TABLE runs RENAME TO runs_1;
ALTER INDEX runs_pkey RENAME TO runs_1_pkey;
ALTER INDEX runs_by_thread RENAME TO runs_1_by_thread;
ALTER INDEX runs_waiting RENAME TO runs_1_waiting;
ALTER TABLE devices RENAME TO devices_1;
ALTER INDEX devices_pkey RENAME TO devices_1_pkey;
ALTER TABLE erasures RENAME TO erasures_1;
ALTER INDEX erasures_pkey RENAME TO erasures_1_pkey;
ALTER TABLE open_effects RENAME TO open_effects_1;
ALTER INDEX open_effects_pkey RENAME TO open_effects_1_pkey;
ALTER INDEX open_effects_by_group RENAME TO open_effects_1_by_group;
ALTER INDEX open_effects_by_device RENAME TO open_effects_1_by_device;
ALTER INDEX open_effects_by_place RENAME TO open_effects_1_by_place;
ALTER TABLE timers RENAME TO timers_1;
ALTER INDEX timers_pkey RENAME TO timers_1_pkey;
ALTER INDEX timers_by_due RENAME TO timers_1_by_due;
ALTER INDEX timers_by_group RENAME TO timers_1_by_group;

-- The generation that is read.
CREATE FUNCTION cairn_live(model text) RETURNS integer
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT p.generation FROM projections p WHERE p.name = model $$;

-- True, or an error: the condition by which a read says which generation it takes for the live one. It sees what the
-- statement sees, so that no read mixes generations.
-- +goose StatementBegin
CREATE FUNCTION cairn_serves(model text, number integer) RETURNS boolean
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM projections p WHERE p.name = model AND p.generation = number) THEN
        RAISE EXCEPTION 'generation % of % is not the one that is read', number, model USING ERRCODE = 'CRN02';
    END IF;
    RETURN true;
END $$;
-- +goose StatementEnd

-- The partitions in which all lanes of the generation that is read are caught up.
CREATE OR REPLACE FUNCTION cairn_caught_up(model text) RETURNS SETOF integer
    LANGUAGE sql STABLE
    AS $$
        SELECT c.partition
          FROM projections p
          JOIN projection_generations g ON g.projection = p.name AND g.generation = p.generation
          JOIN projection_checkpoints c ON c.projection = p.name AND c.generation = p.generation
         WHERE p.name = model AND c.stopped_at IS NULL
           AND EXISTS (SELECT 1 FROM log_ends e
                        WHERE e.partition = c.partition
                          AND e.sampled_at > cairn_now() - interval '5 seconds'
                          AND e.sampled_at < cairn_now() + interval '5 seconds'
                          AND e.end_offset <= c.next_offset)
         GROUP BY c.partition, g.lanes
        HAVING count(*) = g.lanes
    $$;

-- Stops the transaction at a hole in the log. It is called for what was found to be one.
-- +goose StatementBegin
CREATE FUNCTION cairn_hole(place text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'the log has a hole before %', place USING ERRCODE = 'CRN01';
END $$;
-- +goose StatementEnd
-- cairn_no_holes stays for one release: processes of the one before, which still run while this begins, call it.

-- For people: the plain name shows the generation that is read. The program never reads it.
CREATE VIEW events AS SELECT * FROM events_1 WHERE cairn_live('events') = 1;
CREATE VIEW threads AS SELECT * FROM threads_1 WHERE cairn_live('threads') = 1;
CREATE VIEW runs AS SELECT * FROM runs_1 WHERE cairn_live('runs') = 1;
CREATE VIEW devices AS SELECT * FROM devices_1 WHERE cairn_live('devices') = 1;
CREATE VIEW erasures AS SELECT * FROM erasures_1 WHERE cairn_live('erasures') = 1;
CREATE VIEW open_effects AS SELECT * FROM open_effects_1 WHERE cairn_live('open_effects') = 1;
CREATE VIEW timers AS SELECT * FROM timers_1 WHERE cairn_live('timers') = 1;
