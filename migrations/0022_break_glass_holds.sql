-- What a period of break-glass hangs on, what somebody proved who they are for, and answers that a later one of the same person took the place of.
ALTER TABLE break_glass ADD COLUMN session   TEXT NOT NULL DEFAULT '';   -- in which it was begun: sessions.id
ALTER TABLE break_glass ADD COLUMN in_groups TEXT NOT NULL DEFAULT '[]'; -- JSON array: of the person, when it was begun
ALTER TABLE sessions    ADD COLUMN purpose   TEXT NOT NULL DEFAULT '';   -- id of the break_glass that the person signed in to begin; '': to sign in
CREATE TABLE votes_replaced (
    request_id   TEXT   NOT NULL,
    voter        TEXT   NOT NULL,
    voter_groups TEXT   NOT NULL,
    place        BIGINT NOT NULL,
    approve      BIGINT NOT NULL,
    digest       TEXT   NOT NULL,
    scope        TEXT   NOT NULL,
    ttl          BIGINT NOT NULL,
    code         TEXT   NOT NULL,
    note         TEXT   NOT NULL,
    voted_at     BIGINT NOT NULL,
    seen         TEXT   NOT NULL,
    proof        TEXT   NOT NULL,
    also         TEXT   NOT NULL,
    break_glass  TEXT   NOT NULL,
    PRIMARY KEY (request_id, voter)
);
