-- +goose Up

-- Which runs wait for a device: few at any time.
CREATE INDEX runs_waiting ON runs (scope) WHERE status = 'waiting';

-- Work table: where each policy goes on. A place that is lost is found again from where the policy began, which stands
-- in the vault.
CREATE TABLE policy_places (
    policy         text COLLATE "C" NOT NULL,
    partition      integer NOT NULL,
    next_offset    bigint NOT NULL,
    era            integer NOT NULL,
    lead           bigint NOT NULL,
    writer         text NOT NULL,
    closed         boolean NOT NULL,
    after_era      integer NOT NULL,
    command_offset bigint NOT NULL,
    updated_at     timestamptz NOT NULL,
    PRIMARY KEY (policy, partition)
);
