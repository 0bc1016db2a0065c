package approval

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// ChoiceBreakGlass is the choice that a passkey signs to begin a period.
const ChoiceBreakGlass = "break-glass"

// planFor is how long a person may take to prove that they want the planned period.
const planFor = 10 * time.Minute

// maxPlan bounds a token: browsers keep 4096 bytes of a cookie, including its name and
// attributes (RFC 6265 section 6.1).
const maxPlan = 3800

// BreakGlassProof proves that a person wants the planned period now. It is either a passkey
// assertion over the plan's digest, or a sign-in at the identity provider after the plan was made.
type BreakGlassProof struct {
	Signed  string    // JSON of the assertion
	Passkey string    // id of the passkey, in hex
	AuthAt  time.Time // of a sign-in, by the clock of the identity provider
	ACR     string    // strength of the sign-in (acr) in the identity provider's words
	For     string    // id of the plan that the person signed in for; "" = for another purpose
	Session string    // id of the session in which the period begins
	// SessionBegan is when the session began. A passkey registered since then proves nothing
	// beyond the session, because the holder of the session can register one.
	SessionBegan time.Time
	// SessionEnds is the latest end of the session, and so of the period.
	SessionEnds time.Time
}

// PlanBreakGlass returns the period that a person would begin, and a token that carries it to
// BeginBreakGlass. The plan is not stored.
func (em *Emergencies) PlanBreakGlass(who broker.Principal, incident, reason string) (plan broker.BreakGlassPlan, token string, err error) {
	if err := em.mayPlan(who); err != nil {
		return plan, "", err
	}
	reason = strings.TrimSpace(reason)
	c := em.breakGlassRules
	plan = broker.BreakGlassPlan{
		ID: broker.NewID(broker.BreakGlassPrefix), Person: who.ID, Incident: strings.TrimSpace(incident), Reason: reason,
		TTL: broker.Seconds(c.TTL / time.Second), Most: c.Decisions, AskedAt: em.clock.Now().UTC().Truncate(time.Millisecond),
	}
	if err := plan.Check(); err != nil {
		return plan, "", err
	}
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false) // "<" stays one byte in the cookie instead of six
	if err := e.Encode(plan); err != nil {
		return plan, "", err
	}
	text := base64.RawURLEncoding.EncodeToString(raw.Bytes())
	if token = text + "." + em.planMAC(text); len(token) > maxPlan {
		return plan, "", broker.E(broker.Invalid, "The reason does not fit into a browser's cookie. Shorten it.", nil)
	}
	return plan, token, nil
}

func (em *Emergencies) mayPlan(who broker.Principal) error {
	if err := broker.Allow(who, broker.Certain, who.Roles...); err != nil {
		return err
	}
	return em.MayBreakGlass(who)
}

// ReadBreakGlassPlan returns the plan of a token: only to the person who got it, within ten
// minutes, and while they may begin that period.
func (em *Emergencies) ReadBreakGlassPlan(who broker.Principal, token string) (plan broker.BreakGlassPlan, err error) {
	if err := em.mayPlan(who); err != nil {
		return plan, err
	}
	again := broker.E(broker.Conflict, "This is not the break-glass period that you planned, or the plan is older than 10 minutes. Begin again.", nil)
	text, mac, _ := strings.Cut(token, ".")
	if !hmac.Equal([]byte(mac), []byte(em.planMAC(text))) {
		return plan, again
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &plan)
	}
	c, ago := em.breakGlassRules, em.clock.Now().Sub(plan.AskedAt)
	if err != nil || plan.Person != who.ID || !broker.ValidID(broker.BreakGlassPrefix, plan.ID) || ago < -broker.ClockSkew || ago > planFor || plan.TTL.Duration() > c.TTL || plan.Most > c.Decisions {
		return broker.BreakGlassPlan{}, again
	}
	return plan, plan.Check()
}

// planMAC authenticates a plan with a key of ebb's. Otherwise a person could backdate the plan,
// and a sign-in before the plan would count as proof.
func (em *Emergencies) planMAC(text string) string {
	m := hmac.New(sha256.New, em.codeKey)
	m.Write([]byte("break-glass\x00" + text))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// provedAnew checks that a sign-in was made for this plan. The session's time is of ebb's
// clock, maybe that of another replica, which is behind by less than a sign-in takes. AuthAt is
// of the identity provider's clock.
func (em *Emergencies) provedAnew(plan broker.BreakGlassPlan, p BreakGlassProof) error {
	switch {
	case !p.SessionBegan.After(plan.AskedAt), p.AuthAt.Before(plan.AskedAt.Add(-broker.ClockSkew)), p.AuthAt.After(em.clock.Now().Add(broker.ClockSkew)):
		return broker.E(broker.Forbidden, "You signed in before you planned the period. Sign in again with the link above the form.", nil)
	case p.For != plan.ID:
		return broker.E(broker.Forbidden, "You signed in for another purpose. Sign in again with the link above the form.", nil)
	}
	return nil
}

// proves checks a proof: against the passkeys in the audit log, and by its time.
func (em *Emergencies) proves(ctx context.Context, who broker.Principal, plan broker.BreakGlassPlan, p BreakGlassProof) error {
	switch {
	case (p.Signed == "") == p.AuthAt.IsZero():
		return broker.E(broker.Forbidden, "Break-glass needs your passkey, or a new sign-in at your identity provider after you planned the period. A session alone is not enough.", nil)
	case p.Signed == "" && em.breakGlassRules.Passkey:
		return broker.E(broker.Forbidden, "Break-glass needs a passkey here, like approvals of high risk. A new sign-in is not enough.", nil)
	case p.Signed == "":
		return em.provedAnew(plan, p)
	case len(p.Signed) > MaxSnapshot:
		return broker.E(broker.Invalid, "The proof is longer than 64 KiB.", nil)
	case em.breakGlassRules.Check == nil:
		return broker.E(broker.Forbidden, "This ebb has no passkeys configured. Sign in at your identity provider instead.", nil)
	}
	var known audit.Answers
	for e, err := range em.store.Entries(ctx, broker.EntryFilter{Kind: "passkey.", Actor: who.ID}) {
		if err == nil {
			err = known.Read(e)
		}
		if err != nil {
			return broker.StoreError(err)
		}
	}
	s := audit.Signature{RequestID: plan.ID, Choice: ChoiceBreakGlass, Digest: plan.Digest(), By: who.ID, Passkey: p.Passkey, Proof: p.Signed}
	var err error
	if s.KeyHash, s.Registered, err = known.Registered(p.Passkey, who.ID, em.clock.Now()); err == nil && s.KeyHash == "" {
		err = broker.ErrNotFound
	}
	if err == nil && !s.Registered.Before(p.SessionBegan) {
		return broker.E(broker.Forbidden, "This passkey was registered in this session, so that it proves nothing beyond the session. Sign out, sign in again, then use it.", nil)
	}
	if err == nil {
		err = em.breakGlassRules.Check(s)
	}
	if err != nil {
		return broker.E(broker.Forbidden, "The passkey's signature does not match this period. Send the form again.", err)
	}
	return nil
}
