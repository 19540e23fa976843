-- +goose Up

-- How a rebuild was asked to go, for who takes it up. 0: nothing was said.
ALTER TABLE projection_rebuilds
    ADD COLUMN max_rate integer NOT NULL DEFAULT 0,
    ADD COLUMN memory   bigint NOT NULL DEFAULT 0;

-- An operator swapped to it or from it, or rolled it back: no process drops it or lets it be read by itself.
ALTER TABLE projection_generations ADD COLUMN by_hand boolean NOT NULL DEFAULT false;
