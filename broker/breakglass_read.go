package broker

import (
	"context"
	"slices"
)

// BreakGlasses lists periods for the console, newest first: auditors and operators all of
// them, others those that nobody has reviewed, without why they were begun, and their own.
func (b *Broker) BreakGlasses(ctx context.Context, who Principal, f BreakGlassFilter) ([]BreakGlass, error) {
	if err := allow(who, doubtful, who.Roles...); err != nil {
		return nil, err
	}
	all := who.Has(RoleAuditor, RoleOperator)
	if !all {
		f.ReviewedOf = who.names()
	}
	gs, err := b.cfg.Desk.BreakGlasses(ctx, f)
	if err != nil {
		return nil, unavailable(err)
	}
	for i := range gs {
		if !all && !gs[i].of(who) {
			gs[i].Reason, gs[i].Note, gs[i].Proof = "", "", ""
		}
	}
	return gs, nil
}

// BreakGlassRecord is all of them, newest first, for those who answer for what is on the
// record: the API has it, where nobody looks on.
func (b *Broker) BreakGlassRecord(ctx context.Context, who Principal, f BreakGlassFilter) ([]BreakGlass, error) {
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

// BreakGlassNow is what everybody is told on every page: the periods that nobody has ended,
// however many nobody has reviewed since, and the newest of those. One whose person may not
// have it any more ends here.
func (b *Broker) BreakGlassNow(ctx context.Context, who Principal) ([]BreakGlass, error) {
	gs, err := b.BreakGlasses(ctx, who, BreakGlassFilter{Unended: true, Limit: 1000})
	if err != nil {
		return nil, err
	}
	rest, err := b.BreakGlasses(ctx, who, BreakGlassFilter{Unreviewed: true, Limit: 20})
	if err != nil {
		return nil, err
	}
	for _, g := range rest {
		if !slices.ContainsFunc(gs, func(o BreakGlass) bool { return o.ID == g.ID }) {
			gs = append(gs, g)
		}
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
	if b.MayBreakGlass(who) != nil {
		return BreakGlass{}, false, nil
	}
	if b.clockBack() { // what is open now does not come back with the time
		return BreakGlass{}, false, b.leaveBreakGlass(ctx, who.ID, self, "clock")
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
