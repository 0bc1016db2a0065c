-- Data keys that seal revocation handles, each wrapped by a key that is not in this database.
CREATE TABLE sealing_keys (
    id          TEXT   NOT NULL PRIMARY KEY,
    wrapped     TEXT   NOT NULL,
    created_at  BIGINT NOT NULL
);
