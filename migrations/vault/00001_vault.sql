-- +goose Up

-- What the whole vault is. One row, made when a program first uses it.
CREATE TABLE vault (
    one          boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- The form of what is stored here. A program refuses one it does not know.
    data_format  integer NOT NULL,
    -- Releases write a new type or schema only from this level on. It never goes down.
    format_level integer NOT NULL,
    -- A known text sealed with the master key: a wrong key is seen before it does harm.
    master_check bytea NOT NULL,
    created_at   timestamptz NOT NULL
);

-- One row a scope, made with its first key and kept for ever. A destroyed one is a tombstone: as long as
-- it stands nobody mints a second key, which is why destroying updates the row and never deletes it.
CREATE TABLE scope_keys (
    scope         text COLLATE "C" PRIMARY KEY,
    index_key     bytea, -- wrapped
    destroyed_at  timestamptz,
    destroyed_why text CHECK (destroyed_why IN ('erased', 'lost')),
    created_at    timestamptz NOT NULL,
    CHECK ((index_key IS NULL) = (destroyed_at IS NOT NULL)),
    CHECK ((destroyed_why IS NULL) = (destroyed_at IS NULL))
);

-- The data keys, wrapped with the master key. Old versions stay, since they open what they sealed.
CREATE TABLE data_keys (
    scope      text COLLATE "C" NOT NULL REFERENCES scope_keys,
    version    integer NOT NULL CHECK (version > 0),
    wrapped    bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (scope, version)
);

-- Who may log in. The e-mail stands here as an HMAC only, and being unique it is the claim to it.
CREATE TABLE credentials (
    user_id       text COLLATE "C" PRIMARY KEY,
    email_digest  bytea NOT NULL UNIQUE,
    password_hash text NOT NULL, -- argon2id
    -- The account's event may be missing as long as this is null: registering again goes on from here.
    registered_at timestamptz,
    -- What the log says, so that nobody has to ask it at each log-in. Of two writers the later position stands.
    tier          text NOT NULL,
    tier_position bigint NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL
);

-- A log-in and the refresh tokens that descend from it. A token is a family, a number and a MAC, so no
-- token is stored: a copy of this table lets nobody in.
CREATE TABLE refresh_families (
    family     uuid PRIMARY KEY,
    user_id    text COLLATE "C" NOT NULL REFERENCES credentials ON DELETE CASCADE,
    number     bigint NOT NULL, -- of the newest token
    rotated_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL, -- of the newest token
    revoked_at timestamptz,
    revoked_why text CHECK (revoked_why IN ('logout', 'reuse'))
);
CREATE INDEX ON refresh_families (user_id);
CREATE INDEX ON refresh_families (expires_at);

-- Tickets for one use, by the SHA-256 of their text.
CREATE TABLE tickets (
    digest          bytea PRIMARY KEY,
    user_id         text COLLATE "C" NOT NULL REFERENCES credentials ON DELETE CASCADE,
    valid_until     timestamptz NOT NULL, -- the ticket
    principal_until timestamptz NOT NULL  -- what it stands for
);
CREATE INDEX ON tickets (user_id);
CREATE INDEX ON tickets (valid_until);

-- Records of the log that an operator has voided; they count as commits without events.
CREATE TABLE voids (
    era        integer NOT NULL,
    partition  integer NOT NULL,
    log_offset bigint NOT NULL,
    reason     text NOT NULL CHECK (reason <> ''),
    voided_at  timestamptz NOT NULL,
    PRIMARY KEY (era, partition, log_offset)
);

-- Where each policy began; its place since then is a work table's.
CREATE TABLE policy_begins (
    policy      text COLLATE "C" NOT NULL,
    era         integer NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint NOT NULL,
    began_at    timestamptz NOT NULL,
    PRIMARY KEY (policy, era, partition)
);
