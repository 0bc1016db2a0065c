-- What people are told: messages on their way, the notices in them, and how far the record was read for it.
CREATE TABLE notifications (
    id            TEXT   NOT NULL PRIMARY KEY,
    channel       TEXT   NOT NULL,
    person        TEXT   NOT NULL, -- '': the channel's own place
    address       TEXT   NOT NULL,
    digest        BIGINT NOT NULL, -- 0 or 1
    items         BIGINT NOT NULL, -- notices, kept or only counted
    created_at    BIGINT NOT NULL,
    send_at       BIGINT NOT NULL, -- not before
    until_at      BIGINT NOT NULL, -- the latest of its notices
    state         TEXT   NOT NULL,
    attempts      BIGINT NOT NULL,
    fence         BIGINT NOT NULL, -- higher with each claim
    claimed_until BIGINT NOT NULL,
    settled_at    BIGINT NOT NULL
);
CREATE INDEX notifications_due     ON notifications (channel, send_at) WHERE state = 'waiting';
CREATE INDEX notifications_recent  ON notifications (channel, person, created_at) WHERE digest = 0;
CREATE INDEX notifications_settled ON notifications (settled_at) WHERE state <> 'waiting';

CREATE TABLE notification_items (
    id              TEXT   NOT NULL PRIMARY KEY, -- of one notice for one recipient: nobody is told twice
    notification_id TEXT   NOT NULL,
    subject         TEXT   NOT NULL,
    event           TEXT   NOT NULL,
    until_at        BIGINT NOT NULL,
    notice          TEXT   NOT NULL -- JSON
);
CREATE INDEX notification_items_message ON notification_items (notification_id, id);
CREATE INDEX notification_items_subject ON notification_items (subject);

CREATE TABLE notification_cursors (
    writer TEXT   NOT NULL PRIMARY KEY,
    seq    BIGINT NOT NULL
);

-- People as they last signed in, and what each wants to be told.
CREATE TABLE reach (
    person      TEXT   NOT NULL PRIMARY KEY,
    mail        TEXT   NOT NULL, -- verified by the identity provider, or ''
    roles       TEXT   NOT NULL, -- JSON array
    in_groups   TEXT   NOT NULL, -- JSON array
    also        TEXT   NOT NULL, -- JSON array
    seen_at     BIGINT NOT NULL,
    wishes      TEXT   NOT NULL  -- JSON object
);
CREATE INDEX reach_seen ON reach (seen_at);
