-- When the page was shown on which a vote was given; 0: no page, or a vote of an earlier version.
ALTER TABLE votes          ADD COLUMN shown_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE votes_replaced ADD COLUMN shown_at BIGINT NOT NULL DEFAULT 0;
