package broker

import (
	"context"
	"errors"
	"unicode/utf8"

	"ebb/attest/jose"
	"ebb/broker/audit"
)

// EndBreakGlass ends a period before its time: its person, operators and auditors.
func (b *Broker) EndBreakGlass(ctx context.Context, who Principal, id string) (BreakGlass, error) {
	if err := allow(who, doubtful, who.Roles...); err != nil {
		return BreakGlass{}, err
	}
	g, err := b.breakGlass(ctx, id)
	if err != nil {
		return g, err
	}
	if !g.of(who) && !who.Has(RoleOperator, RoleAuditor) {
		return g, E(Forbidden, "The person whose it is, operators and auditors end it.", nil)
	}
	out, err := b.endBreakGlass(ctx, g, who.ID, "by_hand")
	return out, breakGlassError(err, "It has ended already.")
}

// LeaveBreakGlass ends what who has open: they sign out, and nobody approves alone in a
// session that is no more.
func (b *Broker) LeaveBreakGlass(ctx context.Context, who Principal) error {
	return b.leaveBreakGlass(ctx, who.ID, who.ID, "signed_out")
}

func (b *Broker) leaveBreakGlass(ctx context.Context, person, by, cause string) error {
	gs, err := b.cfg.Desk.BreakGlasses(ctx, BreakGlassFilter{Person: person, Unended: true})
	if err != nil {
		return unavailable(err)
	}
	for _, g := range gs {
		if _, err := b.endBreakGlass(ctx, g, by, cause); err != nil && !errors.Is(err, ErrDone) {
			return unavailable(err)
		}
	}
	return nil
}

func (b *Broker) endBreakGlass(ctx context.Context, g BreakGlass, by, cause string) (BreakGlass, error) {
	at := earliest(b.now(), g.EndsAt)
	if at.Before(g.BegunAt) { // the clock was set back
		at = g.BegunAt
	}
	return b.cfg.Desk.EndBreakGlass(ctx, g.ID, by, at, func(g BreakGlass) audit.Entry {
		return b.entry(audit.BreakGlassEnded, by, map[string]any{"break_glass": g.ID, "incident": g.Incident, "used": g.Used, "cause": cause})
	})
}

// endBreakGlasses puts on the record that periods are over. Nothing can be approved under
// them meanwhile.
func (b *Broker) endBreakGlasses(ctx context.Context) {
	gs, err := b.cfg.Desk.BreakGlasses(ctx, BreakGlassFilter{Unended: true, Limit: 1000})
	if err != nil {
		return // the next round asks again
	}
	open := len(gs)
	for _, g := range gs {
		cause := b.overBy(g)
		if cause == "" {
			continue
		}
		if _, err := b.endBreakGlass(ctx, g, self, cause); err == nil || errors.Is(err, ErrDone) {
			open--
		} else {
			b.cfg.Logger.WarnContext(ctx, "the end of a break-glass is not on the record yet", "break_glass", g.ID, "error", err)
		}
	}
	if open == 0 {
		b.caughtUp()
	}
}

// overBy is why a period that nobody has ended is over, "" = it is not. A clock that goes
// back ends it: afterwards nobody can tell how long it has been open.
func (b *Broker) overBy(g BreakGlass) string {
	switch {
	case !b.now().Before(g.EndsAt):
		return "time"
	case b.clockBack() || b.now().Before(g.BegunAt.Add(-ClockSkew)):
		return "clock"
	case !b.stillNamed(g):
		return "role"
	}
	return ""
}

// stillNamed reports whether the person of a period is named for it now: one of the
// configuration as that has them, one of an identity provider by the groups that they had.
func (b *Broker) stillNamed(g BreakGlass) bool {
	if p, known := b.Principal(g.Person); known {
		return b.MayBreakGlass(p) == nil
	}
	return b.cfg.BreakGlass.names(g.Person, g.Groups) && !b.runs(Principal{ID: g.Person, Also: g.Also})
}

// MayReview is why somebody does not review a period, whatever they would say; nil = they may.
func MayReview(who Principal, g BreakGlass) error {
	switch {
	case !who.Has(RoleAuditor):
		return E(Forbidden, "An auditor reviews it.", nil)
	case g.of(who):
		return E(Forbidden, "Nobody reviews their own break-glass. Another auditor must.", nil)
	}
	return nil
}

// ReviewBreakGlass closes the review of a period that is over: an auditor who is not the
// person whose it was.
func (b *Broker) ReviewBreakGlass(ctx context.Context, who Principal, id, note string) (BreakGlass, error) {
	if err := allow(who, certain, RoleAuditor); err != nil {
		return BreakGlass{}, err
	}
	g, err := b.breakGlass(ctx, id)
	if err == nil {
		err = MayReview(who, g)
	}
	switch n := utf8.RuneCountInString(note); {
	case err != nil:
		return g, err
	case g.EndedAt.IsZero() && b.now().Before(g.EndsAt):
		return g, E(Conflict, "It is still open. End it first.", nil)
	case n < 1 || n > 500 || !jose.Plain(note):
		return g, E(Invalid, "Say in 1 to 500 printable characters what the review found.", nil)
	}
	out, err := b.cfg.Desk.ReviewBreakGlass(ctx, id, who.ID, note, b.now(), func(g BreakGlass) audit.Entry {
		return b.entry(audit.BreakGlassReviewed, who.ID, map[string]any{"break_glass": id, "incident": g.Incident, "used": g.Used, "note": note})
	})
	return out, breakGlassError(err, "It is reviewed already.")
}

func breakGlassError(err error, done string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrDone):
		return E(Conflict, done, err)
	}
	return unavailable(err)
}
