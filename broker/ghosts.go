package broker

import (
	"context"
	"maps"
	"slices"
	"sync"

	"ebb/broker/audit"
	"ebb/broker/provider"
)

// ghosts are credentials that came into being after the lane had settled their
// intents, and that could not be taken back at once. No record owes them any more,
// so that this process does until they are gone; the sweep finds them as well.
type ghosts struct {
	mu sync.Mutex
	m  map[string]ghost // by lease
}

type ghost struct {
	u      *upstream
	lease  Lease
	handle provider.Secret
}

func (g *ghosts) all() []ghost {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.m))
}

// count is how many there are at each provider.
func (g *ghosts) count() map[string]int {
	out := map[string]int{}
	for _, one := range g.all() {
		out[one.u.name]++
	}
	return out
}

// tooLate deals with a credential that came into being when its intent was somebody
// else's to settle: what the journal refused to write with it is written alone, and what
// could not be taken back haunts.
func (m *minting) tooLate(ctx context.Context, cred provider.Credential, cause error, gone bool) {
	b := m.b
	e := m.undeliveredEntry(cause)
	if m.part { // nothing takes it back, and its lease goes by a guess
		if !cred.DiesAt.IsZero() {
			e = b.leaseEntry(audit.LeaseUndelivered, self, m.lease, map[string]any{"why": errorKind(cause), "dies_at": cred.DiesAt})
		}
		b.note(ctx, e)
		return
	}
	b.note(ctx, e)
	if gone {
		b.laid(ctx, m.u, m.lease)
		return
	}
	b.ghosts.mu.Lock()
	defer b.ghosts.mu.Unlock()
	if b.ghosts.m == nil {
		b.ghosts.m = map[string]ghost{}
	}
	b.ghosts.m[m.lease.ID] = ghost{m.u, m.lease, cred.Handle}
}

// bust takes ghosts back, one after the other.
func (b *Broker) bust(ctx context.Context) {
	for _, g := range b.ghosts.all() {
		if ctx.Err() != nil {
			return
		}
		call, cancel := context.WithTimeout(ctx, callTime)
		err := g.u.revoke(call, b.targetOf(g.lease, g.handle))
		cancel()
		if err != nil {
			b.cfg.Logger.ErrorContext(ctx, "a credential that nobody got could not be taken back yet", "lease_id", g.lease.ID, "error", err)
			continue
		}
		b.ghosts.mu.Lock()
		delete(b.ghosts.m, g.lease.ID)
		b.ghosts.mu.Unlock()
		b.laid(ctx, g.u, g.lease)
	}
}

// laid tells of an orphan when the record of what was taken back had ended before. As
// long as it has not, the lane goes on and tells how it ends.
func (b *Broker) laid(ctx context.Context, u *upstream, l Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failTime)
	defer cancel()
	ls, err := b.cfg.Journal.Leases(ctx, LeaseFilter{IDs: []string{l.ID}, Now: b.now()})
	if err != nil || len(ls) != 1 {
		b.cfg.Logger.WarnContext(ctx, "what is on the record of a credential that came too late could not be read", "lease_id", l.ID, "error", err)
	} else if l = ls[0]; !l.State.final() {
		return
	}
	if b.firstOf(ctx, l.ID) {
		b.tellOrphan(ctx, u, l, true, true)
	}
}
