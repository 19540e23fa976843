-- +goose Up

-- The era of the log that a place lies in. The acceptance state can't say it: what a migration copied counts under the
-- era before. A place of another era than the log's is none.
ALTER TABLE policy_places ADD COLUMN log_era integer NOT NULL DEFAULT 0;
UPDATE policy_places SET log_era = era;

-- Work table: the newest era that was begun. A process that still reads the log of an earlier one keeps no place any more.
CREATE TABLE policy_era (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    era integer NOT NULL
);
INSERT INTO policy_era (era) SELECT coalesce(max(era), 0) FROM policy_places;
