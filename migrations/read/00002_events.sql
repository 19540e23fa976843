-- +goose Up

-- Every event of the log, content sealed. actor and data are the stored bytes, never encoded anew.
CREATE TABLE events (
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
    run            text COLLATE "C",
    PRIMARY KEY (scope, position),
    -- Two events at one place of a stream are a defect of the log: the projector stops.
    UNIQUE (scope, stream, version)
);
CREATE INDEX events_by_run ON events (scope, run, version) WHERE run IS NOT NULL;

-- +goose StatementBegin
-- Stops the transaction where the log has a hole: every first version and position of a batch must
-- follow one that is there.
CREATE FUNCTION cairn_no_holes(scopes text[], streams text[], versions bigint[], owners text[], positions bigint[]) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    hole text;
BEGIN
    SELECT u.scope || ' ' || u.stream || ' version ' || u.version INTO hole
      FROM unnest(scopes, streams, versions) AS u (scope, stream, version)
     WHERE u.version > 1 AND NOT EXISTS (
           SELECT 1 FROM events e WHERE e.scope = u.scope AND e.stream = u.stream AND e.version = u.version - 1)
     LIMIT 1;
    IF hole IS NULL THEN
        SELECT u.scope || ' position ' || u.position INTO hole
          FROM unnest(owners, positions) AS u (scope, position)
         WHERE u.position > 1 AND NOT EXISTS (
               SELECT 1 FROM events e WHERE e.scope = u.scope AND e.position = u.position - 1)
         LIMIT 1;
    END IF;
    IF hole IS NOT NULL THEN
        RAISE EXCEPTION 'the log has a hole before %', hole USING ERRCODE = 'data_exception';
    END IF;
END $$;
-- +goose StatementEnd
