-- One row a request to a device outside a run: what was asked, and what became of it. What it holds and what was answered
-- stays sealed in the events whose versions stand here.

-- tables

CREATE TABLE {device_requests} (
    scope           text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    device          text COLLATE "C" NOT NULL,
    kind            text COLLATE "C" NOT NULL,  -- data or mutation
    action          text COLLATE "C" NOT NULL,
    target          text COLLATE "C" NOT NULL,  -- the table on the device; '' where the action has none
    status          text COLLATE "C" NOT NULL,
    reason          text COLLATE "C" NOT NULL,  -- of a failure
    requested_at    timestamptz NOT NULL,
    wait_until      timestamptz NOT NULL,       -- for the device to come
    offered_at      timestamptz,
    ended_at        timestamptz,
    position        bigint NOT NULL,            -- of the event that asked
    request_version bigint NOT NULL,
    result_version  bigint NOT NULL,            -- 0: it has no outcome
    late_version    bigint NOT NULL             -- of the last answer that came after the outcome; 0: none
);

-- key

ALTER TABLE {device_requests} ADD PRIMARY KEY (scope, id);

-- indexes

CREATE INDEX {device_requests}_by_device ON {device_requests} (scope, device, kind, position);
