-- Sums over a window: what people decided in it, and what died at providers in it.
CREATE INDEX votes_voted ON votes (voted_at);
CREATE INDEX upstream_leases_dead ON upstream_leases (dead_at) WHERE dead_at > 0;
