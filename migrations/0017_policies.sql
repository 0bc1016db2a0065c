-- Policy sets that people propose, and those that were published. A published one is never changed.
CREATE TABLE policy_drafts (
    id          TEXT   NOT NULL PRIMARY KEY,
    digest      TEXT   NOT NULL, -- of what whoever publishes it agrees to
    author      TEXT   NOT NULL,
    also        TEXT   NOT NULL, -- JSON array: other names of the author
    note        TEXT   NOT NULL,
    base        TEXT   NOT NULL, -- version of the set it was written against
    after       BIGINT NOT NULL, -- number of that release; 0 = it was none
    version     TEXT   NOT NULL,
    files       TEXT   NOT NULL, -- JSON array
    created_at  BIGINT NOT NULL,
    changed_at  BIGINT NOT NULL
);
CREATE TABLE policy_releases (
    number      BIGINT NOT NULL PRIMARY KEY,
    version     TEXT   NOT NULL,
    before      TEXT   NOT NULL, -- version of the set in whose place it came
    files       TEXT   NOT NULL, -- JSON array
    draft       TEXT   NOT NULL,
    digest      TEXT   NOT NULL,
    note        TEXT   NOT NULL,
    author      TEXT   NOT NULL,
    publisher   TEXT   NOT NULL,
    proof       TEXT   NOT NULL,
    at          BIGINT NOT NULL
);
