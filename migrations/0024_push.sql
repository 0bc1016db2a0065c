-- Browsers in which people get notifications (Push API).
CREATE TABLE push_subscriptions (
    id         TEXT   NOT NULL PRIMARY KEY, -- a hash of the address at the push service
    person     TEXT   NOT NULL,
    name       TEXT   NOT NULL, -- of the browser
    sealed     TEXT   NOT NULL, -- the address and the keys, encrypted
    created_at BIGINT NOT NULL
);
CREATE INDEX push_subscriptions_person ON push_subscriptions (person, created_at);
