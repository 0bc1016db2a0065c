-- Browsers in which people have signed in. Neither value that a browser holds is here, only SHA-256 of each.
CREATE TABLE sessions (
    id          TEXT   NOT NULL PRIMARY KEY,
    act         TEXT   NOT NULL,
    person      TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    roles       TEXT   NOT NULL, -- JSON array
    in_groups   TEXT   NOT NULL, -- JSON array
    method      TEXT   NOT NULL,
    acr         TEXT   NOT NULL,
    agent       TEXT   NOT NULL,
    auth_at     BIGINT NOT NULL,
    groups_at   BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    seen_at     BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL
);
CREATE INDEX sessions_person  ON sessions (person);
CREATE INDEX sessions_expires ON sessions (expires_at);
