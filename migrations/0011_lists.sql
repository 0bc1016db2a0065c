-- What auditors page through. Own tokens are never in the last state: most mints pay for the first alone.
CREATE INDEX leases_provider    ON leases (provider, id);
CREATE INDEX leases_unconfirmed ON leases (id) WHERE state = 'unconfirmed';
