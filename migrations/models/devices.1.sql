-- One row a device: what its last hello said.

-- tables

CREATE TABLE {devices} (
    scope         text COLLATE "C" NOT NULL,
    device        text COLLATE "C" NOT NULL,
    protocol      integer NOT NULL,
    timezone      text NOT NULL,
    journal       boolean NOT NULL,
    batch         boolean NOT NULL,
    introduced_at timestamptz NOT NULL,  -- the first time
    updated_at    timestamptz NOT NULL,
    version       bigint NOT NULL,       -- of the event that holds the name
    position      bigint NOT NULL
);

-- key

ALTER TABLE {devices} ADD PRIMARY KEY (scope, device);
