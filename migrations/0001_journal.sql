-- Ids sort by time of creation, so that a primary key is also the order of every listing.

CREATE TABLE tasks (
    id          TEXT   NOT NULL PRIMARY KEY,
    name        TEXT   NOT NULL,
    kind        TEXT   NOT NULL,
    owner       TEXT   NOT NULL,
    runner      TEXT   NOT NULL,
    labels      TEXT   NOT NULL, -- JSON object
    ceiling     TEXT   NOT NULL, -- scopes, separated by a space
    caps        TEXT   NOT NULL, -- JSON object
    expected    TEXT   NOT NULL, -- JSON object: the sandbox that was announced
    heartbeat   BIGINT NOT NULL, -- seconds
    opened_at   BIGINT NOT NULL,
    deadline    BIGINT NOT NULL,
    state       TEXT   NOT NULL,
    cause       TEXT   NOT NULL,
    reason      TEXT   NOT NULL,
    closed_at   BIGINT NOT NULL,
    closed_by   TEXT   NOT NULL,
    sandbox_id  TEXT   NOT NULL, -- '' until one is bound
    sandbox     TEXT   NOT NULL  -- JSON object, '' until one is bound
);
CREATE INDEX tasks_owner  ON tasks (owner, id);
CREATE INDEX tasks_runner ON tasks (runner, id);
CREATE INDEX tasks_open   ON tasks (id) WHERE state <> 'closed';
CREATE INDEX tasks_closed ON tasks (closed_at) WHERE state = 'closed';

-- A row is not rewritten when its task ends: see Lease in package broker.
CREATE TABLE leases (
    id          TEXT   NOT NULL PRIMARY KEY,
    task_id     TEXT   NOT NULL,
    sandbox     TEXT   NOT NULL,
    owner       TEXT   NOT NULL,
    provider    TEXT   NOT NULL,
    scope       TEXT   NOT NULL,
    resource    TEXT   NOT NULL,
    jkt         TEXT   NOT NULL,
    x5t         TEXT   NOT NULL,
    class       TEXT   NOT NULL,
    request_id  TEXT   NOT NULL,
    rule        TEXT   NOT NULL,
    tool        TEXT   NOT NULL,
    txn         TEXT   NOT NULL,
    issued_at   BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    state       TEXT   NOT NULL,
    revoked_at  BIGINT NOT NULL,
    revoked_by  TEXT   NOT NULL,
    cause       TEXT   NOT NULL
);
CREATE INDEX leases_task    ON leases (task_id, id);
CREATE INDEX leases_owner   ON leases (owner, id);
CREATE INDEX leases_issued  ON leases (issued_at);
CREATE INDEX leases_expires ON leases (expires_at);
CREATE INDEX leases_owed    ON leases (id) WHERE state IN ('intent', 'revoking');

CREATE TABLE requests (
    id          TEXT   NOT NULL PRIMARY KEY,
    task_id     TEXT   NOT NULL,
    sandbox     TEXT   NOT NULL,
    owner       TEXT   NOT NULL,
    runner      TEXT   NOT NULL,
    dedupe      TEXT   NOT NULL,
    provider    TEXT   NOT NULL,
    scope       TEXT   NOT NULL,
    resource    TEXT   NOT NULL,
    ttl         BIGINT NOT NULL, -- seconds
    jkt         TEXT   NOT NULL,
    x5t         TEXT   NOT NULL,
    tool        TEXT   NOT NULL,
    details     BIGINT NOT NULL, -- 0 or 1
    evidence_until BIGINT NOT NULL,
    ask         TEXT   NOT NULL, -- JSON: who must agree
    facts       TEXT   NOT NULL, -- canonical JSON, byte for byte what digest is over
    digest      TEXT   NOT NULL,
    reason      TEXT   NOT NULL, -- the agent's words as an ASCII JSON string
    asked       BIGINT NOT NULL,
    voted       BIGINT NOT NULL, -- votes so far; writing it is what makes votes queue
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    state       TEXT   NOT NULL,
    decided_at  BIGINT NOT NULL,
    granted     TEXT   NOT NULL, -- scopes
    granted_ttl BIGINT NOT NULL, -- seconds
    grant_until BIGINT NOT NULL,
    code        TEXT   NOT NULL,
    note        TEXT   NOT NULL
);
CREATE UNIQUE INDEX requests_dedupe  ON requests (dedupe) WHERE state = 'pending';
CREATE INDEX requests_pending ON requests (expires_at) WHERE state = 'pending';
CREATE INDEX requests_task    ON requests (task_id, id);
CREATE INDEX requests_owner   ON requests (owner, id);
CREATE INDEX requests_created ON requests (created_at);
CREATE INDEX requests_decided ON requests (decided_at) WHERE decided_at > 0;
CREATE INDEX requests_grant   ON requests (grant_until) WHERE state IN ('approved', 'issued');

CREATE TABLE request_groups (
    group_name  TEXT   NOT NULL,
    request_id  TEXT   NOT NULL,
    PRIMARY KEY (group_name, request_id)
);

CREATE TABLE votes (
    request_id  TEXT   NOT NULL,
    voter       TEXT   NOT NULL,
    voter_groups TEXT  NOT NULL, -- JSON array: the groups of the voter at that moment
    place       BIGINT NOT NULL, -- 1, 2, 3 ... within the request
    approve     BIGINT NOT NULL, -- 0 or 1
    digest      TEXT   NOT NULL,
    scope       TEXT   NOT NULL,
    ttl         BIGINT NOT NULL, -- seconds
    code        TEXT   NOT NULL,
    note        TEXT   NOT NULL,
    voted_at    BIGINT NOT NULL,
    PRIMARY KEY (request_id, voter)
);

-- One process run is one writer and one chain.
CREATE TABLE audit_writers (
    writer      TEXT   NOT NULL PRIMARY KEY,
    started_at  BIGINT NOT NULL
);

CREATE TABLE audit_entries (
    writer      TEXT   NOT NULL,
    seq         BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    kind        TEXT   NOT NULL,
    actor       TEXT   NOT NULL,
    task_id     TEXT   NOT NULL,
    lease_id    TEXT   NOT NULL,
    request_id  TEXT   NOT NULL,
    data        TEXT   NOT NULL, -- canonical JSON object or ''
    prev        TEXT   NOT NULL,
    hash        TEXT   NOT NULL,
    PRIMARY KEY (writer, seq)
);
-- What every mint writes has no index by kind, and nothing has one by actor: every
-- mint would pay for it, and who asks for them also names a time or a limit.
CREATE INDEX audit_entries_kind    ON audit_entries (kind, at, writer, seq) WHERE kind <> 'lease.issued';
CREATE INDEX audit_entries_at      ON audit_entries (at, writer, seq);
CREATE INDEX audit_entries_task    ON audit_entries (task_id, at, writer, seq) WHERE task_id <> '';
CREATE INDEX audit_entries_lease   ON audit_entries (lease_id) WHERE lease_id <> '';
CREATE INDEX audit_entries_request ON audit_entries (request_id) WHERE request_id <> '';

CREATE TABLE checkpoints (
    digest      TEXT   NOT NULL PRIMARY KEY, -- hex SHA-256 of jws
    at          BIGINT NOT NULL,
    heads       TEXT   NOT NULL, -- JSON object
    jws         TEXT   NOT NULL
);
CREATE INDEX checkpoints_at ON checkpoints (at);
