-- What is owed at providers: one row for each credential of a third party, beside its
-- row in leases, which own tokens have alone. next_at > 0 as long as the lease is in
-- no final state. Whoever changes both rows changes this one first.
CREATE TABLE upstream_leases (
    lease_id      TEXT   NOT NULL PRIMARY KEY,
    task_id       TEXT   NOT NULL,
    provider      TEXT   NOT NULL,
    fence         BIGINT NOT NULL, -- raised by each claim
    claimed_until BIGINT NOT NULL, -- 0 when nobody works on it
    bound         BIGINT NOT NULL, -- seconds
    dies_at       BIGINT NOT NULL, -- 0: never by itself
    accepted_at   BIGINT NOT NULL,
    dead_at       BIGINT NOT NULL,
    proof         TEXT   NOT NULL,
    probed_at     BIGINT NOT NULL,
    attempts      BIGINT NOT NULL,
    next_at       BIGINT NOT NULL,
    last_error    TEXT   NOT NULL,
    handle        TEXT   NOT NULL  -- sealed, '' when there is none
);
CREATE INDEX upstream_leases_due  ON upstream_leases (provider, next_at) WHERE next_at > 0;
CREATE INDEX upstream_leases_task ON upstream_leases (task_id);

-- 1 when the task ever had one: the end of one that had none does not look for any.
ALTER TABLE tasks ADD COLUMN has_upstream BIGINT NOT NULL DEFAULT 0;
