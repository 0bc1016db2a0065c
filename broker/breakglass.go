package broker

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"ebb/attest/jose"
	"ebb/broker/audit"
)

// BreakGlassConfig says who may approve alone in an emergency. The zero value: nobody.
type BreakGlassConfig struct {
	Groups    []string      // whose members may; none of them empty
	People    []string      // ids of those who may
	TTL       time.Duration // of one period; 0 = 30 min, which is also the most
	Decisions int           // approvals under one period; 0 = 5
	PerDay    int           // periods that one person begins in 24 hours; 0 = 3
	Passkey   bool          // nothing but a passkey proves it: a sign-in anew does not count
	// Check judges what a passkey signed; nil = no passkey counts.
	Check func(audit.Signature) error
}

// BreakGlassTTL is how long a period lasts, and no period is longer.
const BreakGlassTTL = 30 * time.Minute

// BreakGlassReview is how long after its end a period may go without its review.
const BreakGlassReview = 24 * time.Hour

// On reports whether anybody is named.
func (c BreakGlassConfig) On() bool { return len(c.Groups)+len(c.People) > 0 }

// BreakGlassConfig is what is set up here, with the defaults filled in.
func (b *Broker) BreakGlassConfig() BreakGlassConfig { return b.cfg.BreakGlass }

func (c BreakGlassConfig) withDefaults() BreakGlassConfig {
	if c.TTL <= 0 || c.TTL > BreakGlassTTL {
		c.TTL = BreakGlassTTL
	}
	if c.Decisions <= 0 {
		c.Decisions = 5
	}
	if c.PerDay <= 0 {
		c.PerDay = 3
	}
	return c
}

// BreakGlass is a period in which a named person approves alone, whatever groups and
// however many people policy asks. Nothing else is different: what policy denies, what is
// of their own task, what is not understood and what is beyond task or evidence is refused.
type BreakGlass struct {
	BreakGlassPlan
	Also       []string  `json:"-"`                    // other names of the person
	Proof      string    `json:"-"`                    // JSON of a passkey's assertion; "" = AuthAt is the proof
	AuthAt     time.Time `json:"proved_at,omitzero"`   // the identity provider said that they proved it anew
	ACR        string    `json:"acr,omitempty"`        // how strongly, in its words
	BegunAt    time.Time `json:"begun_at"`             //
	EndsAt     time.Time `json:"ends_at"`              // at the latest
	EndedAt    time.Time `json:"ended_at,omitzero"`    //
	EndedBy    string    `json:"ended_by,omitempty"`   //
	Used       int       `json:"used"`                 // approvals given under it
	ReviewedAt time.Time `json:"reviewed_at,omitzero"` //
	ReviewedBy string    `json:"reviewed_by,omitempty"`
	Note       string    `json:"note,omitempty"` // of the review
}

// Open reports whether something may be approved under it now. A clock that shows a time
// before it began is wrong.
func (g BreakGlass) Open(now time.Time) bool {
	return g.EndedAt.IsZero() && !now.Before(g.BegunAt) && now.Before(g.EndsAt)
}

// Over is when it ended, or will.
func (g BreakGlass) Over() time.Time { return earliest(g.EndsAt, g.EndedAt) }

// Overdue reports whether somebody should have reviewed it by now.
func (g BreakGlass) Overdue(now time.Time) bool {
	return g.ReviewedAt.IsZero() && now.Sub(g.Over()) >= BreakGlassReview
}

// of reports whether a period is of this person, under whichever of their names.
func (g BreakGlass) of(who Principal) bool {
	return who.named(append([]string{g.Person}, g.Also...)...)
}

// BreakGlassFilter selects periods. Zero members match everything.
type BreakGlassFilter struct {
	ID, Person string
	Unreviewed bool
	Unended    bool
	After      string // exclusive, an id; "" = the newest
	Limit      int    // 1..1000, 0 = 50
}

var incidentForm = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._/#-]{0,63}\z`)

// runs reports whether who opens tasks or checks tokens, now or as the configuration has
// them under any of their names: a token or link may leave a role out, and does not make
// another person.
func (b *Broker) runs(who Principal) bool {
	return who.Has(RoleRunner, RoleResourceServer) || slices.ContainsFunc(b.cfg.Principals, func(c PrincipalConfig) bool {
		return c.Has(RoleRunner, RoleResourceServer) && who.named(append([]string{c.ID}, c.Also...)...)
	})
}

// MayBreakGlass is why a person may not begin a period; nil = they may. What opens tasks
// never may: neither a program nor who runs it, and nobody takes the role off for it.
func (b *Broker) MayBreakGlass(who Principal) error {
	c := b.cfg.BreakGlass
	switch {
	case !c.On():
		return E(Forbidden, "Break-glass is not set up here: nobody is named for it (console.break_glass).", nil)
	case b.runs(who):
		return E(Forbidden, "What opens tasks or checks tokens never breaks the glass. Sign in as a person who does neither.", nil)
	case len(who.Roles) == 0 || !slices.Contains(c.People, who.ID) && !meet(c.Groups, who.Groups):
		return E(Forbidden, "You are not among the people who are named for break-glass.", nil)
	}
	return nil
}

// BeginBreakGlass begins the period that a token of PlanBreakGlass describes, once who has
// proved that they want just that. Only the console calls it: there is no way to it by the API.
func (b *Broker) BeginBreakGlass(ctx context.Context, who Principal, token string, proof BreakGlassProof) (BreakGlass, error) {
	plan, err := b.ReadBreakGlassPlan(who, token)
	if err != nil {
		return BreakGlass{}, err
	}
	now := b.now()
	switch {
	case b.setBack():
		return BreakGlass{}, unavailable(errors.New("the clock was set back"))
	case !now.Before(proof.SessionEnds):
		return BreakGlass{}, E(Forbidden, "Break-glass ends with the session in which it is begun, and there is none.", nil)
	}
	if err := b.proves(ctx, who, plan, proof); err != nil {
		return BreakGlass{}, err
	}
	b.endDue(ctx, BreakGlassFilter{Person: who.ID, Unended: true, Limit: 1})
	g := BreakGlass{
		BreakGlassPlan: plan, Also: who.Also, Proof: proof.Signed, AuthAt: proof.AuthAt, ACR: proof.ACR,
		BegunAt: now, EndsAt: earliest(now.Add(plan.TTL.Duration()), proof.SessionEnds),
	}
	data := map[string]any{
		"break_glass": g.ID, "incident": g.Incident, "reason": g.Reason, "asked_at": g.AskedAt, "until": g.EndsAt, "most": g.Most, "digest": plan.Digest(), "groups": who.Groups,
	}
	if proof.Signed != "" {
		data["proof_sha256"], data["choice"], data["passkey"] = SeenHash(proof.Signed), ChoiceBreakGlass, proof.Passkey
	} else {
		data["proved_at"], data["acr"] = proof.AuthAt, proof.ACR
	}
	c := b.cfg.BreakGlass
	switch err := b.cfg.Desk.BeginBreakGlass(ctx, g, now.Add(-24*time.Hour), c.PerDay, b.entry(audit.BreakGlassBegun, who.ID, data)); {
	case errors.Is(err, ErrExists):
		return BreakGlass{}, E(Conflict, "You have a break-glass open already, or what you send was used before. Look at the list.", err)
	case errors.Is(err, ErrCap):
		return BreakGlass{}, &Error{Kind: TooMany, Public: "You have broken the glass as often as one person may in a day. Somebody else who is named may.", Cause: err, RetryAfter: time.Hour}
	case err != nil:
		return BreakGlass{}, unavailable(err)
	}
	b.m.breakGlass.Inc()
	b.cfg.Logger.WarnContext(ctx, "somebody broke the glass: they approve alone", "actor", g.Person, "incident", g.Incident, "until", g.EndsAt, "break_glass", g.ID)
	return g, nil
}

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
	out, err := b.endBreakGlass(ctx, g, who.ID, "by_hand", earliest(b.now(), g.EndsAt))
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
		if _, err := b.endBreakGlass(ctx, g, by, cause, earliest(b.now(), g.EndsAt)); err != nil && !errors.Is(err, ErrDone) {
			return unavailable(err)
		}
	}
	return nil
}

func (b *Broker) endBreakGlass(ctx context.Context, g BreakGlass, by, cause string, at time.Time) (BreakGlass, error) {
	return b.cfg.Desk.EndBreakGlass(ctx, g.ID, by, at, b.entry(audit.BreakGlassEnded, by, map[string]any{"break_glass": g.ID, "incident": g.Incident, "used": g.Used, "cause": cause}))
}

// endBreakGlasses puts on the record that periods ended by time.
func (b *Broker) endBreakGlasses(ctx context.Context) {
	b.endDue(ctx, BreakGlassFilter{Unended: true, Limit: 100})
}

// endDue ends those of f whose time is over. Nothing can be approved under them meanwhile.
func (b *Broker) endDue(ctx context.Context, f BreakGlassFilter) {
	gs, err := b.cfg.Desk.BreakGlasses(ctx, f)
	if err != nil {
		return // the next round asks again
	}
	for _, g := range gs {
		if b.now().Before(g.EndsAt) {
			continue
		}
		if _, err := b.endBreakGlass(ctx, g, self, "time", g.EndsAt); err != nil && !errors.Is(err, ErrDone) {
			b.cfg.Logger.WarnContext(ctx, "the end of a break-glass is not on the record yet", "break_glass", g.ID, "error", err)
		}
	}
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
	out, err := b.cfg.Desk.ReviewBreakGlass(ctx, id, who.ID, note, b.now(), b.entry(audit.BreakGlassReviewed, who.ID, map[string]any{"break_glass": id, "incident": g.Incident, "used": g.Used, "note": note}))
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
