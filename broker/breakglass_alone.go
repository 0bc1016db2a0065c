package broker

import (
	"context"
	"slices"
	"time"

	"ebb/broker/audit"
)

// BreakGlasses lists periods, newest first: auditors and operators all of them, others
// those that nobody has reviewed, without why they were begun, and their own.
func (b *Broker) BreakGlasses(ctx context.Context, who Principal, f BreakGlassFilter) ([]BreakGlass, error) {
	if err := allow(who, doubtful, who.Roles...); err != nil {
		return nil, err
	}
	gs, err := b.cfg.Desk.BreakGlasses(ctx, f)
	if err != nil {
		return nil, unavailable(err)
	}
	if who.Has(RoleAuditor, RoleOperator) {
		return gs, nil
	}
	gs = slices.DeleteFunc(gs, func(g BreakGlass) bool { return !g.ReviewedAt.IsZero() && !g.of(who) })
	for i := range gs {
		if !gs[i].of(who) {
			gs[i].Reason, gs[i].Note, gs[i].Proof = "", "", ""
		}
	}
	return gs, nil
}

// BreakGlassList is the same for the API: for those who see all of them.
func (b *Broker) BreakGlassList(ctx context.Context, who Principal, f BreakGlassFilter) ([]BreakGlass, error) {
	if err := allow(who, certain, RoleAuditor, RoleOperator); err != nil {
		return nil, err
	}
	return b.BreakGlasses(ctx, who, f)
}

// BreakGlassOf is one of them, as who may see it.
func (b *Broker) BreakGlassOf(ctx context.Context, who Principal, id string) (BreakGlass, error) {
	none := E(NotFound, "There is no such break-glass, or it is not for you to see.", nil)
	if !validID(breakGlassPrefix, id) {
		return BreakGlass{}, none
	}
	gs, err := b.BreakGlasses(ctx, who, BreakGlassFilter{ID: id, Limit: 1})
	if err != nil {
		return BreakGlass{}, err
	}
	if len(gs) == 0 {
		return BreakGlass{}, none
	}
	return gs[0], nil
}

// BreakGlassNow is what everybody is told on every page: the periods that nobody has
// reviewed, the newest first. One whose person may not have it any more ends here.
func (b *Broker) BreakGlassNow(ctx context.Context, who Principal) ([]BreakGlass, error) {
	gs, err := b.BreakGlasses(ctx, who, BreakGlassFilter{Unreviewed: true, Limit: 20})
	if err != nil {
		return nil, err
	}
	for i, g := range gs {
		if g.Person == who.ID && g.EndedAt.IsZero() && b.MayBreakGlass(who) != nil {
			if err := b.leaveBreakGlass(ctx, who.ID, self, "role"); err != nil {
				return nil, err
			}
			gs[i].EndedAt, gs[i].EndedBy = earliest(b.now(), g.EndsAt), self
		}
	}
	return gs, nil
}

// OpenBreakGlass is the period in which who may approve alone now, if there is one.
func (b *Broker) OpenBreakGlass(ctx context.Context, who Principal) (BreakGlass, bool, error) {
	if b.MayBreakGlass(who) != nil || b.setBack() {
		return BreakGlass{}, false, nil
	}
	gs, err := b.cfg.Desk.BreakGlasses(ctx, BreakGlassFilter{Person: who.ID, Unended: true, Limit: 1})
	if err != nil {
		return BreakGlass{}, false, unavailable(err)
	}
	if len(gs) == 0 || !gs[0].Open(b.now()) {
		return BreakGlass{}, false, nil
	}
	return gs[0], true, nil
}

func (b *Broker) breakGlass(ctx context.Context, id string) (BreakGlass, error) {
	none := E(NotFound, "There is no such break-glass.", nil)
	if !validID(breakGlassPrefix, id) {
		return BreakGlass{}, none
	}
	gs, err := b.cfg.Desk.BreakGlasses(ctx, BreakGlassFilter{ID: id, Limit: 1})
	if err != nil {
		return BreakGlass{}, unavailable(err)
	}
	if len(gs) == 0 {
		return BreakGlass{}, none
	}
	return gs[0], nil
}

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

// alone is the period of a verdict that is given under one.
func (b *Broker) alone(ctx context.Context, who Principal, r Request, v Verdict) (BreakGlass, error) {
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

// aloneStill reports whether somebody's yes alone still stands for what policy asks: while
// the period under which it was given is open. What has been minted by then has its own end.
func (b *Broker) aloneStill(ctx context.Context, r Request) (bool, error) {
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
	if p, known := b.Principal(g.Person); known && b.MayBreakGlass(p) != nil { // it ends with the role
		return false, nil
	}
	return g.Open(b.now()) && !b.setBack(), nil
}
