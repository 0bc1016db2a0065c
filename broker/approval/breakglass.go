package approval

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// Emergencies manages break-glass periods, in which one named person may approve alone.
type Emergencies struct {
	breakGlassRules BreakGlassConfig
	approvalStore   broker.ApprovalStore
	store           broker.Store
	logger          *slog.Logger
	configured      []broker.PrincipalConfig
	codeKey         []byte
	m               *kernel.Metrics

	accounts accounts
	clock    *kernel.Timekeeper
	log      *kernel.Recorder
	revoker  revoker
}

// BreakGlassConfig names the people with the right to approve alone in an emergency. The zero value names
// none.
type BreakGlassConfig struct {
	Groups    []string      // members have the right to begin a period; no entry is empty
	People    []string      // ids of people with the right to begin a period
	TTL       time.Duration // of one period; 0 = 30 min, which is also the maximum
	Decisions int           // largest number of approvals in one period; 0 = 5
	PerDay    int           // largest number of periods that one person begins in 24 hours; 0 = 3
	Passkey   bool          // only a passkey is accepted as proof; a fresh sign-in is not
	// Check verifies a passkey's signature; nil = no passkey is accepted.
	Check func(audit.Signature) error
}

// BreakGlassTTL is the default and the maximum length of a period.
const BreakGlassTTL = 30 * time.Minute

// On reports whether any person or group is named.
func (c BreakGlassConfig) On() bool { return len(c.Groups)+len(c.People) > 0 }

func (c BreakGlassConfig) names(id string, groups []string) bool {
	return slices.Contains(c.People, id) || broker.Meet(c.Groups, groups)
}

// BreakGlassConfig returns the configuration with the defaults filled in.
func (em *Emergencies) BreakGlassConfig() BreakGlassConfig { return em.breakGlassRules }

func (c BreakGlassConfig) WithDefaults() BreakGlassConfig {
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

// runs reports whether a principal opens tasks or checks tokens: by its current roles, or by
// the configured roles of any of its names. A token or link may leave a role out, but still
// belongs to the same person.
func (em *Emergencies) runs(who broker.Principal) bool {
	return who.Has(broker.RoleRunner, broker.RoleResourceServer) || slices.ContainsFunc(em.configured, func(c broker.PrincipalConfig) bool {
		return c.Has(broker.RoleRunner, broker.RoleResourceServer) && who.Named(append([]string{c.ID}, c.Also...)...)
	})
}

// MayBreakGlass returns why a person may not begin a period; nil = they may. A principal that opens
// tasks never may, whether it is a program or a person, even if the current token lacks that role.
func (em *Emergencies) MayBreakGlass(who broker.Principal) error {
	c := em.breakGlassRules
	switch {
	case !c.On():
		return broker.E(broker.Forbidden, "Break-glass is not configured: console.break_glass names no person and no group.", nil)
	case em.runs(who):
		return broker.E(broker.Forbidden, "A principal that opens tasks or checks tokens cannot use break-glass. Sign in as a person without those roles.", nil)
	case len(who.Roles) == 0 || !c.names(who.ID, who.Groups):
		return broker.E(broker.Forbidden, "You are not among the people named for break-glass (console.break_glass). Ask the operator.", nil)
	}
	return nil
}

// BeginBreakGlass begins the period described by a token of PlanBreakGlass, after the person
// has proved that they want exactly that period. Only the console calls it; the API has no
// operation for it.
func (em *Emergencies) BeginBreakGlass(ctx context.Context, who broker.Principal, token string, proof BreakGlassProof) (broker.BreakGlass, error) {
	plan, err := em.ReadBreakGlassPlan(who, token)
	if err != nil {
		return broker.BreakGlass{}, err
	}
	now := em.clock.Now()
	switch {
	case em.clock.ClockBack():
		return broker.BreakGlass{}, broker.E(broker.Unavailable, "The clock of this ebb is behind its audit log, so that the length of a break-glass period could not be measured. Its operator must correct the clock.", errors.New("the clock was set back"))
	case proof.Session == "" || !now.Before(proof.SessionEnds):
		return broker.BreakGlass{}, noSession(nil)
	}
	if err := em.proves(ctx, who, plan, proof); err != nil {
		return broker.BreakGlass{}, err
	}
	em.EndBreakGlasses(ctx)
	g := broker.BreakGlass{
		BreakGlassPlan: plan, Also: who.Also, Groups: who.Groups, Session: proof.Session, Proof: proof.Signed, AuthAt: proof.AuthAt, ACR: proof.ACR,
		BegunAt: now, EndsAt: broker.Earliest(now.Add(plan.TTL.Duration()), proof.SessionEnds),
	}
	data := map[string]any{
		"break_glass": g.ID, "incident": g.Incident, "reason": g.Reason, "asked_at": g.AskedAt, "until": g.EndsAt, "most": g.Most, "digest": plan.Digest(), "groups": who.Groups,
	}
	if proof.Signed != "" {
		data["proof_sha256"], data["choice"], data["passkey"] = broker.TextHash(proof.Signed), ChoiceBreakGlass, proof.Passkey
	} else {
		data["proved_at"], data["acr"] = proof.AuthAt, proof.ACR
	}
	c := em.breakGlassRules
	switch err := em.approvalStore.BeginBreakGlass(ctx, g, now.Add(-24*time.Hour), c.PerDay, em.log.NewEntry(audit.BreakGlassBegun, who.ID, data)); {
	case errors.Is(err, broker.ErrNotFound):
		return broker.BreakGlass{}, noSession(err)
	case errors.Is(err, broker.ErrExists):
		return broker.BreakGlass{}, broker.E(broker.Conflict, "You have an open break-glass period already, or this form was sent before. See the list of periods.", err)
	case errors.Is(err, broker.ErrCap):
		return broker.BreakGlass{}, &broker.Error{Kind: broker.TooMany, Public: "You have begun as many break-glass periods as one person may in 24 hours. Another named person can begin one.", Cause: err, RetryAfter: time.Hour}
	case err != nil:
		return broker.BreakGlass{}, broker.StoreError(err)
	}
	em.m.BreakGlass.Inc()
	em.logger.WarnContext(ctx, "a break-glass period began: one person approves alone", "actor", g.Person, "incident", g.Incident, "until", g.EndsAt, "break_glass", g.ID)
	return g, nil
}

func noSession(cause error) error {
	return broker.E(broker.Forbidden, "A break-glass period needs the console session in which it begins, and that session has ended. Sign in again.", cause)
}

// MayDecideAlone returns why a person may not approve a request alone in their open period; nil
// = they may.
func MayDecideAlone(who broker.Principal, r broker.Request, g broker.BreakGlass, now time.Time) error {
	switch {
	case g.ID == "" || g.Person != who.ID || !g.Open(now):
		return broker.E(broker.Forbidden, "You have no open break-glass period.", nil)
	case g.Used >= g.Most:
		return broker.E(broker.Forbidden, "The limit of approvals in this break-glass period is reached.", nil)
	case who.Named(r.Owner, r.Runner):
		return broker.E(broker.Forbidden, "You cannot decide requests of your own task, not even in a break-glass period. Ask another approver.", nil)
	}
	return nil
}

// glassOf returns the break-glass period of a verdict that names one.
func (em *Emergencies) glassOf(ctx context.Context, who broker.Principal, r broker.Request, v broker.Verdict) (broker.BreakGlass, error) {
	if err := em.MayBreakGlass(who); err != nil {
		return broker.BreakGlass{}, err
	}
	if !v.Approve {
		return broker.BreakGlass{}, broker.E(broker.Invalid, "Break-glass applies to approvals only. Deny the request without it.", nil)
	}
	g, open, err := em.OpenBreakGlass(ctx, who)
	if err != nil {
		return broker.BreakGlass{}, err
	}
	if !open || g.ID != v.BreakGlass {
		g = broker.BreakGlass{}
	}
	return g, MayDecideAlone(who, r, g, em.clock.Now())
}

// under makes a ballot count for all approvals that the policy demands. The grant ends with the
// period, and an audit entry names the period.
func (em *Emergencies) under(g broker.BreakGlass, who broker.Principal, r broker.Request, out ballot) ballot {
	out.Vote.BreakGlass, out.until = g.ID, broker.Earliest(out.until, g.EndsAt)
	out.entries = append(out.entries, em.revoker.RequestEntry(audit.BreakGlassUsed, who.ID, r, map[string]any{
		"break_glass": g.ID, "incident": g.Incident, "scope": out.Vote.Scopes, "ttl": out.Vote.TTL, "groups": r.Groups, "quorum": r.Quorum,
	}))
	return out
}

// glassStands reports whether an approval given alone still satisfies the policy: as long as
// its period is open. Credentials minted before that have their own expiry.
func (em *Emergencies) glassStands(ctx context.Context, r broker.Request) (bool, error) {
	i := slices.IndexFunc(r.Votes, func(v broker.Vote) bool { return v.Approve && v.BreakGlass != "" })
	if i < 0 {
		return false, nil
	}
	g, err := em.breakGlass(ctx, r.Votes[i].BreakGlass)
	switch {
	case err != nil && broker.AsError(err).Kind == broker.NotFound: // no such period is stored
		return false, nil
	case err != nil:
		return false, err
	}
	return g.Open(em.clock.Now()) && em.overBy(g) == "", nil
}
