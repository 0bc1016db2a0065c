package broker

import (
	"context"
	"slices"
	"time"

	"ebb/broker/audit"
)

// MayDecideAlone is why a person may not say yes to a request alone, in a period of their
// own that is open; nil = they may.
func MayDecideAlone(who Principal, r Request, g BreakGlass, now time.Time) error {
	switch {
	case g.ID == "" || g.Person != who.ID || !g.Open(now):
		return E(Forbidden, "You have no break-glass open.", nil)
	case g.Used >= g.Most:
		return E(Forbidden, "As much was approved under this break-glass as may be.", nil)
	case who.named(r.Owner, r.Runner):
		return E(Forbidden, "Nobody decides requests of their own task, also not in an emergency.", nil)
	}
	return nil
}

// glassOf is the period of a verdict that is given under one.
func (b *Broker) glassOf(ctx context.Context, who Principal, r Request, v Verdict) (BreakGlass, error) {
	if err := b.MayBreakGlass(who); err != nil {
		return BreakGlass{}, err
	}
	if !v.Approve {
		return BreakGlass{}, E(Invalid, "Break-glass is for a yes. A no needs none.", nil)
	}
	g, open, err := b.OpenBreakGlass(ctx, who)
	if err != nil {
		return BreakGlass{}, err
	}
	if !open || g.ID != v.BreakGlass {
		g = BreakGlass{}
	}
	return g, MayDecideAlone(who, r, g, b.now())
}

// under makes a ballot one that counts for all whom policy asks: what is granted by it
// ends with its period, and the record says so.
func (b *Broker) under(g BreakGlass, who Principal, r Request, out Ballot) Ballot {
	out.Vote.BreakGlass, out.Until = g.ID, earliest(out.Until, g.EndsAt)
	out.Entries = append(out.Entries, b.requestEntry(audit.BreakGlassUsed, who.ID, r, map[string]any{
		"break_glass": g.ID, "incident": g.Incident, "scope": out.Vote.Scopes, "ttl": out.Vote.TTL, "groups": r.Groups, "quorum": r.Quorum,
	}))
	return out
}

// glassStands reports whether somebody's yes alone still stands for what policy asks: while
// the period under which it was given is open. What has been minted by then has its own end.
func (b *Broker) glassStands(ctx context.Context, r Request) (bool, error) {
	i := slices.IndexFunc(r.Votes, func(v Vote) bool { return v.Approve && v.BreakGlass != "" })
	if i < 0 {
		return false, nil
	}
	g, err := b.breakGlass(ctx, r.Votes[i].BreakGlass)
	switch {
	case err != nil && AsError(err).Kind == NotFound: // nothing says that it ever was
		return false, nil
	case err != nil:
		return false, err
	}
	return g.Open(b.now()) && b.overBy(g) == "", nil
}
