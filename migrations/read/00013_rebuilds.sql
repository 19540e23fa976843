-- +goose Up

-- Work table: who asked for each generation of a read model, and how it went. A row outlives its generation, so that
-- no process begins by itself again what an operator has dropped or rolled back. Losing the table costs a rebuild.
CREATE TABLE projection_rebuilds (
    projection text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    revision   integer NOT NULL,
    -- auto: it is read as soon as it is verified. manual: an operator swaps.
    swap       text NOT NULL CHECK (swap IN ('auto', 'manual')),
    asked_by   text NOT NULL,
    asked_at   timestamptz NOT NULL,
    swapped_at timestamptz,
    failed_at  timestamptz,
    failure    text,
    PRIMARY KEY (projection, generation)
);

-- The newest revision of each read model that a process can read, by name. A process of a release before this one says
-- nothing: it reads revision 1.
ALTER TABLE processes ADD COLUMN revisions jsonb NOT NULL DEFAULT '{}';
