package approval

import (
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// EndBreakGlass ends a period early; allowed to its person, operators and auditors.
func (em *Emergencies) EndBreakGlass(ctx context.Context, who broker.Principal, id string) (broker.BreakGlass, error) {
	if err := broker.Allow(who, broker.Doubtful, who.Roles...); err != nil {
		return broker.BreakGlass{}, err
	}
	g, err := em.breakGlass(ctx, id)
	if err != nil {
		return g, err
	}
	if !g.Of(who) && !who.Has(broker.RoleOperator, broker.RoleAuditor) {
		return g, broker.E(broker.Forbidden, "Only the person of a break-glass period, operators and auditors can end it.", nil)
	}
	out, err := em.endBreakGlass(ctx, g, who.ID, "by_hand")
	return out, breakGlassError(err, "The break-glass period has ended already.")
}

// LeaveBreakGlass ends the open period of a person who signs out, because it needs their session.
func (em *Emergencies) LeaveBreakGlass(ctx context.Context, who broker.Principal) error {
	return em.EndOwn(ctx, who.ID, who.ID, "signed_out")
}

func (em *Emergencies) EndOwn(ctx context.Context, person, by, cause string) error {
	gs, err := em.approvalStore.BreakGlasses(ctx, broker.BreakGlassFilter{Person: person, Unended: true})
	if err != nil {
		return broker.StoreError(err)
	}
	for _, g := range gs {
		if _, err := em.endBreakGlass(ctx, g, by, cause); err != nil && !errors.Is(err, broker.ErrDone) {
			return broker.StoreError(err)
		}
	}
	return nil
}

func (em *Emergencies) endBreakGlass(ctx context.Context, g broker.BreakGlass, by, cause string) (broker.BreakGlass, error) {
	at := broker.Earliest(em.clock.Now(), g.EndsAt)
	if at.Before(g.BegunAt) { // the clock was set back
		at = g.BegunAt
	}
	return em.approvalStore.EndBreakGlass(ctx, g.ID, by, at, func(g broker.BreakGlass) audit.Entry {
		return em.log.NewEntry(audit.BreakGlassEnded, by, map[string]any{"break_glass": g.ID, "incident": g.Incident, "used": g.Used, "cause": cause})
	})
}

// EndBreakGlasses records the end of periods that are over. No approval is possible under them
// in the meantime.
func (em *Emergencies) EndBreakGlasses(ctx context.Context) {
	gs, err := em.approvalStore.BreakGlasses(ctx, broker.BreakGlassFilter{Unended: true, Limit: 1000})
	if err != nil {
		return // the next round tries again
	}
	open := len(gs)
	for _, g := range gs {
		cause := em.overBy(g)
		if cause == "" {
			continue
		}
		if _, err := em.endBreakGlass(ctx, g, kernel.Self, cause); err == nil || errors.Is(err, broker.ErrDone) {
			open--
		} else {
			em.logger.WarnContext(ctx, "the end of a break-glass period could not be recorded yet", "break_glass", g.ID, "error", err)
		}
	}
	if open == 0 {
		em.clock.CaughtUp()
	}
}

// overBy returns why a period that was not ended explicitly is over, "" if it is not. A clock
// that is set back ends it, because its length can no longer be measured.
func (em *Emergencies) overBy(g broker.BreakGlass) string {
	switch {
	case !em.clock.Now().Before(g.EndsAt):
		return "time"
	case em.clock.ClockBack() || em.clock.Now().Before(g.BegunAt.Add(-broker.ClockSkew)):
		return "clock"
	case !em.stillNamed(g):
		return "role"
	}
	return ""
}

// stillNamed reports whether the person of a period is still named for break-glass: a
// configured principal by its current configuration, a person of an identity provider by the
// groups at the time.
func (em *Emergencies) stillNamed(g broker.BreakGlass) bool {
	if p, known := em.accounts.Principal(g.Person); known {
		return em.MayBreakGlass(p) == nil
	}
	return em.breakGlassRules.names(g.Person, g.Groups) && !em.runs(broker.Principal{ID: g.Person, Also: g.Also})
}

// MayReview returns why a person may not review a period; nil = they may.
func MayReview(who broker.Principal, g broker.BreakGlass) error {
	switch {
	case !who.Has(broker.RoleAuditor):
		return broker.E(broker.Forbidden, "Only an auditor reviews a break-glass period.", nil)
	case g.Of(who):
		return broker.E(broker.Forbidden, "You cannot review your own break-glass period. Ask another auditor.", nil)
	}
	return nil
}

// ReviewBreakGlass closes the review of a period that is over. The reviewer is an auditor other
// than the person of the period.
func (em *Emergencies) ReviewBreakGlass(ctx context.Context, who broker.Principal, id, note string) (broker.BreakGlass, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor); err != nil {
		return broker.BreakGlass{}, err
	}
	g, err := em.breakGlass(ctx, id)
	if err == nil {
		err = MayReview(who, g)
	}
	switch n := utf8.RuneCountInString(note); {
	case err != nil:
		return g, err
	case g.EndedAt.IsZero() && em.clock.Now().Before(g.EndsAt):
		return g, broker.E(broker.Conflict, "The break-glass period is still open. End it first.", nil)
	case n < 1 || n > 500 || !jose.Plain(note):
		return g, broker.E(broker.Invalid, "note must be 1 to 500 printable characters: describe what the review found.", nil)
	}
	out, err := em.approvalStore.ReviewBreakGlass(ctx, id, who.ID, note, em.clock.Now(), func(g broker.BreakGlass) audit.Entry {
		return em.log.NewEntry(audit.BreakGlassReviewed, who.ID, map[string]any{"break_glass": id, "incident": g.Incident, "used": g.Used, "note": note})
	})
	return out, breakGlassError(err, "The break-glass period is reviewed already.")
}

func breakGlassError(err error, done string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, broker.ErrDone):
		return broker.E(broker.Conflict, done, err)
	}
	return broker.StoreError(err)
}

// BreakGlasses lists periods for the console, newest first. Auditors and operators see all of
// them; other people see their own, and the unreviewed ones of others without the reason.
func (em *Emergencies) BreakGlasses(ctx context.Context, who broker.Principal, f broker.BreakGlassFilter) ([]broker.BreakGlass, error) {
	if err := broker.Allow(who, broker.Doubtful, who.Roles...); err != nil {
		return nil, err
	}
	all := who.Has(broker.RoleAuditor, broker.RoleOperator)
	if !all {
		f.ReviewedOf = who.Names()
	}
	gs, err := em.approvalStore.BreakGlasses(ctx, f)
	if err != nil {
		return nil, broker.StoreError(err)
	}
	for i := range gs {
		if !all && !gs[i].Of(who) {
			gs[i].Reason, gs[i].Note, gs[i].Proof = "", "", ""
		}
	}
	return gs, nil
}

// BreakGlassRecord lists all periods, newest first, for auditors and operators. The API uses
// it, which has no page that shows periods to everyone.
func (em *Emergencies) BreakGlassRecord(ctx context.Context, who broker.Principal, f broker.BreakGlassFilter) ([]broker.BreakGlass, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor, broker.RoleOperator); err != nil {
		return nil, err
	}
	return em.BreakGlasses(ctx, who, f)
}

// BreakGlassOf returns one period, if the principal may see it.
func (em *Emergencies) BreakGlassOf(ctx context.Context, who broker.Principal, id string) (broker.BreakGlass, error) {
	none := broker.E(broker.NotFound, "There is no such break-glass period, or you may not see it.", nil)
	if !broker.ValidID(broker.BreakGlassPrefix, id) {
		return broker.BreakGlass{}, none
	}
	gs, err := em.BreakGlasses(ctx, who, broker.BreakGlassFilter{ID: id, Limit: 1})
	if err != nil {
		return broker.BreakGlass{}, err
	}
	if len(gs) == 0 {
		return broker.BreakGlass{}, none
	}
	return gs[0], nil
}

// BreakGlassNow returns the periods that every page of the console shows: all that have not
// ended, and the newest 20 without a review. It ends an open period of the person if they are
// no longer allowed to have it.
func (em *Emergencies) BreakGlassNow(ctx context.Context, who broker.Principal) ([]broker.BreakGlass, error) {
	gs, err := em.BreakGlasses(ctx, who, broker.BreakGlassFilter{Unended: true, Limit: 1000})
	if err != nil {
		return nil, err
	}
	rest, err := em.BreakGlasses(ctx, who, broker.BreakGlassFilter{Unreviewed: true, Limit: 20})
	if err != nil {
		return nil, err
	}
	for _, g := range rest {
		if !slices.ContainsFunc(gs, func(o broker.BreakGlass) bool { return o.ID == g.ID }) {
			gs = append(gs, g)
		}
	}
	for i, g := range gs {
		if g.Person == who.ID && g.EndedAt.IsZero() && em.MayBreakGlass(who) != nil {
			if err := em.EndOwn(ctx, who.ID, kernel.Self, "role"); err != nil {
				return nil, err
			}
			gs[i].EndedAt, gs[i].EndedBy = broker.Earliest(em.clock.Now(), g.EndsAt), kernel.Self
		}
	}
	return gs, nil
}

// OpenBreakGlass returns the open period in which the person may approve alone, if there is one.
func (em *Emergencies) OpenBreakGlass(ctx context.Context, who broker.Principal) (broker.BreakGlass, bool, error) {
	if em.MayBreakGlass(who) != nil {
		return broker.BreakGlass{}, false, nil
	}
	if em.clock.ClockBack() { // it ends for good, even when the clock is corrected
		return broker.BreakGlass{}, false, em.EndOwn(ctx, who.ID, kernel.Self, "clock")
	}
	gs, err := em.approvalStore.BreakGlasses(ctx, broker.BreakGlassFilter{Person: who.ID, Unended: true, Limit: 1})
	if err != nil {
		return broker.BreakGlass{}, false, broker.StoreError(err)
	}
	if len(gs) == 0 || !gs[0].Open(em.clock.Now()) {
		return broker.BreakGlass{}, false, nil
	}
	return gs[0], true, nil
}

func (em *Emergencies) breakGlass(ctx context.Context, id string) (broker.BreakGlass, error) {
	none := broker.E(broker.NotFound, "There is no such break-glass period.", nil)
	if !broker.ValidID(broker.BreakGlassPrefix, id) {
		return broker.BreakGlass{}, none
	}
	gs, err := em.approvalStore.BreakGlasses(ctx, broker.BreakGlassFilter{ID: id, Limit: 1})
	if err != nil {
		return broker.BreakGlass{}, broker.StoreError(err)
	}
	if len(gs) == 0 {
		return broker.BreakGlass{}, none
	}
	return gs[0], nil
}
