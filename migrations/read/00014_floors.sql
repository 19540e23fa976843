-- +goose Up

-- What was deleted from events, by `cairn events prune`. A generation that is filled anew has it all again.
CREATE TABLE event_floors (
    generation integer NOT NULL,         -- of events
    scope      text COLLATE "C" NOT NULL,
    stream     text COLLATE "C" NOT NULL, -- empty: of the whole scope
    floor      bigint NOT NULL,          -- of a stream, the version from which on all are there; of a scope, the position up to which some are not
    pruned_at  timestamptz NOT NULL,
    PRIMARY KEY (generation, scope, stream)
);

-- Old firings are deleted by their time, with each new one.
CREATE INDEX timer_firings_by_time ON timer_firings (fired_at);
