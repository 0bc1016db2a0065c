-- How a credential gets to where it is used: 'token' it is handed out, 'egress' it stays in ebb, which
-- adds it to requests. '': issued before this was on the record.
ALTER TABLE leases ADD COLUMN delivery TEXT NOT NULL DEFAULT '';
