-- +goose Up

-- Old firings are deleted by their time, with each new one.
CREATE INDEX timer_firings_by_time ON timer_firings (fired_at);
