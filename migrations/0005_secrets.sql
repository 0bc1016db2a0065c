-- Secrets of the operator that outlive the process and change. sealed names the key that sealed it (sealing_keys).
CREATE TABLE secrets (
    name          TEXT   NOT NULL PRIMARY KEY,
    sealed        TEXT   NOT NULL,
    fence         BIGINT NOT NULL,
    claimed_until BIGINT NOT NULL, -- 0 = by nobody
    changed_at    BIGINT NOT NULL
);
