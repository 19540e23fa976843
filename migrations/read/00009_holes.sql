-- +goose Up

-- The same as before under a code of its own, so that a hole in the log is told from every other failure: no read model goes past one.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION cairn_no_holes(scopes text[], streams text[], versions bigint[], owners text[], positions bigint[]) RETURNS void
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
        RAISE EXCEPTION 'the log has a hole before %', hole USING ERRCODE = 'CRN01';
    END IF;
END $$;
-- +goose StatementEnd
