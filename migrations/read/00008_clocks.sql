-- +goose Up

-- A clock that was ahead and was put right leaves times of the future behind. Nothing that was said then counts: a worker
-- that died meanwhile would else live, and keep what it had claimed, until its time comes; and a model would be taken for
-- caught up by where the log ended long ago. Who lives says so again within a second.
CREATE OR REPLACE FUNCTION cairn_alive(name text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
        SELECT EXISTS (SELECT 1 FROM workers w
                        WHERE w.worker = name
                          AND w.touched_at > cairn_now() - interval '10 seconds'
                          AND w.touched_at < cairn_now() + interval '10 seconds')
    $$;

CREATE OR REPLACE FUNCTION cairn_caught_up(model text) RETURNS SETOF integer
    LANGUAGE sql STABLE
    AS $$
        SELECT c.partition
          FROM projection_checkpoints c
          JOIN projections p ON p.name = c.projection AND p.generation = c.generation
         WHERE c.projection = model AND c.stopped_at IS NULL
           AND EXISTS (SELECT 1 FROM log_ends e
                        WHERE e.partition = c.partition
                          AND e.sampled_at > cairn_now() - interval '5 seconds'
                          AND e.sampled_at < cairn_now() + interval '5 seconds'
                          AND e.end_offset <= c.next_offset)
    $$;
