-- The fence of the write that made the secret what it is: sealing it again with another key leaves it.
ALTER TABLE secrets ADD COLUMN version BIGINT NOT NULL DEFAULT 0;
