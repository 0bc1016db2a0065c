package broker

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"time"

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

func (c BreakGlassConfig) names(id string, groups []string) bool {
	return slices.Contains(c.People, id) || meet(c.Groups, groups)
}

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
	Session    string    `json:"-"`              // in which it was begun, by its id
	Groups     []string  `json:"-"`              // of the person, when it was begun
}

// Open reports whether something may be approved under it now. A clock that shows a time
// before it began, by more than that of another replica may be ahead, is wrong.
func (g BreakGlass) Open(now time.Time) bool {
	return g.EndedAt.IsZero() && !now.Before(g.BegunAt.Add(-ClockSkew)) && now.Before(g.EndsAt)
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

// SamePerson reports whether two periods are of one person, as far as their names tell.
func (g BreakGlass) SamePerson(o BreakGlass) bool {
	return Vote{By: g.Person, Also: g.Also}.SamePerson(Vote{By: o.Person, Also: o.Also})
}

// BreakGlassFilter selects periods. Zero members match everything.
type BreakGlassFilter struct {
	ID, Person string
	Unreviewed bool
	Unended    bool
	ReviewedOf []string // of those that are reviewed only these people's, whatever the letter case; nil = everybody's
	After      string   // exclusive, an id; "" = the newest
	Limit      int      // 1..1000, 0 = 50
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
	case len(who.Roles) == 0 || !c.names(who.ID, who.Groups):
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
	case b.clockBack():
		return BreakGlass{}, E(Unavailable, "The clock of this ebb is behind its record, so nobody could tell how long a break-glass is open. Its operator sets the clock right.", errors.New("the clock was set back"))
	case proof.Session == "" || !now.Before(proof.SessionEnds):
		return BreakGlass{}, noSession(nil)
	}
	if err := b.proves(ctx, who, plan, proof); err != nil {
		return BreakGlass{}, err
	}
	b.endBreakGlasses(ctx)
	g := BreakGlass{
		BreakGlassPlan: plan, Also: who.Also, Groups: who.Groups, Session: proof.Session, Proof: proof.Signed, AuthAt: proof.AuthAt, ACR: proof.ACR,
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
	case errors.Is(err, ErrNotFound):
		return BreakGlass{}, noSession(err)
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

func noSession(cause error) error {
	return E(Forbidden, "Break-glass ends with the session in which it is begun, and there is none. Sign in again.", cause)
}
