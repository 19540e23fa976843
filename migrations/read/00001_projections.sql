-- +goose Up

-- The one clock of SQL: what is due, who is alive. Tests replace the function to shift it. It stands
-- still within a statement, so that an index can be compared with it.
CREATE FUNCTION cairn_now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT statement_timestamp()';

-- Which generation of a read model is read. A swap is one UPDATE.
CREATE TABLE projections (
    name       text COLLATE "C" PRIMARY KEY,
    generation integer NOT NULL
);

-- Where each read model stands in the log, and what it remembers to tell what counts.
CREATE TABLE projection_checkpoints (
    projection     text COLLATE "C" NOT NULL,
    generation     integer NOT NULL,
    partition      integer NOT NULL,
    lane           integer NOT NULL DEFAULT 0,
    next_offset    bigint NOT NULL,
    era            integer NOT NULL,
    lead           bigint NOT NULL,
    writer         text NOT NULL,
    closed         boolean NOT NULL,
    after_era      integer NOT NULL,
    command_offset bigint NOT NULL,
    updated_at     timestamptz NOT NULL,
    -- An event that could not be applied. Only an operator steps over it.
    stopped_at     timestamptz,
    stopped_offset bigint,
    stopped_event  text,
    stopped_reason text,
    PRIMARY KEY (projection, generation, partition, lane)
);

-- Work table: where the log ended lately, sampled each second. A model that has passed one of the last
-- five seconds' samples has passed what was the end five seconds ago: it is caught up.
CREATE TABLE log_ends (
    partition  integer NOT NULL,
    sampled_at timestamptz NOT NULL,
    end_offset bigint NOT NULL,
    PRIMARY KEY (partition, sampled_at)
);

-- The partitions in which a live read model is caught up. Effects and timers act on nothing else.
CREATE FUNCTION cairn_caught_up(model text) RETURNS SETOF integer
    LANGUAGE sql STABLE
    AS $$
        SELECT c.partition
          FROM projection_checkpoints c
          JOIN projections p ON p.name = c.projection AND p.generation = c.generation
         WHERE c.projection = model AND c.stopped_at IS NULL
           AND EXISTS (SELECT 1 FROM log_ends e
                        WHERE e.partition = c.partition
                          AND e.sampled_at > cairn_now() - interval '5 seconds'
                          AND e.end_offset <= c.next_offset)
    $$;
