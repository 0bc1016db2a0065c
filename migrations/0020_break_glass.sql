-- Periods in which a named person approves alone, whatever groups and however many people policy asks.
CREATE TABLE break_glass (
    id          TEXT   NOT NULL PRIMARY KEY,
    person      TEXT   NOT NULL,
    also        TEXT   NOT NULL, -- JSON array: other names of the person
    incident    TEXT   NOT NULL,
    reason      TEXT   NOT NULL,
    ttl         BIGINT NOT NULL, -- seconds: id, person, incident, reason, ttl, most and asked_at are what was proved
    most        BIGINT NOT NULL, -- approvals under it
    asked_at    BIGINT NOT NULL,
    proof       TEXT   NOT NULL, -- JSON of a passkey's assertion; '': the sign-in at proved_at is the proof
    proved_at   BIGINT NOT NULL, -- 0: by a passkey
    acr         TEXT   NOT NULL, -- how strongly, in the identity provider's words
    begun_at    BIGINT NOT NULL,
    ends_at     BIGINT NOT NULL, -- at the latest
    ended_at    BIGINT NOT NULL, -- 0: open until ends_at
    ended_by    TEXT   NOT NULL,
    used        BIGINT NOT NULL, -- approvals given under it
    reviewed_at BIGINT NOT NULL, -- 0: an auditor must still look at it
    reviewed_by TEXT   NOT NULL,
    note        TEXT   NOT NULL
);
CREATE UNIQUE INDEX break_glass_open       ON break_glass (person) WHERE ended_at = 0;
CREATE UNIQUE INDEX break_glass_proved     ON break_glass (person, proved_at) WHERE proved_at > 0; -- one sign-in proves one
CREATE INDEX        break_glass_unreviewed ON break_glass (begun_at) WHERE reviewed_at = 0;
CREATE INDEX        break_glass_person     ON break_glass (person, begun_at);
ALTER TABLE votes ADD COLUMN break_glass TEXT NOT NULL DEFAULT ''; -- id of the period under which a yes was given alone
CREATE INDEX        votes_break_glass      ON votes (break_glass) WHERE break_glass <> '';
