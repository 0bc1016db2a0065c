-- Passkeys that people have registered: public halves alone.
CREATE TABLE passkeys (
    id         TEXT   NOT NULL PRIMARY KEY, -- hex
    person     TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    public_key TEXT   NOT NULL, -- COSE, hex
    uses       BIGINT NOT NULL, -- the authenticator's count of signatures
    synced     BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL
);
CREATE INDEX passkeys_person ON passkeys (person, created_at, id);
-- What proves an answer: the assertion of a passkey, as JSON.
ALTER TABLE votes ADD COLUMN proof TEXT NOT NULL DEFAULT '';
