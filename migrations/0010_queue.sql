-- What an approver was shown, beside the answer, and the order in which people look at what waits.
ALTER TABLE votes    ADD COLUMN seen TEXT   NOT NULL DEFAULT ''; -- JSON; '': decided without a page
ALTER TABLE requests ADD COLUMN risk BIGINT NOT NULL DEFAULT 0;  -- the higher, the earlier it is looked at
CREATE INDEX requests_queue ON requests (risk DESC, expires_at, id, owner, runner) WHERE state = 'pending'; -- counted from the index alone
