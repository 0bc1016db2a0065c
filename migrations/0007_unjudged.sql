-- Probes since a revocation was accepted of which nobody could tell what they showed.
ALTER TABLE upstream_leases ADD COLUMN unjudged BIGINT NOT NULL DEFAULT 0;
