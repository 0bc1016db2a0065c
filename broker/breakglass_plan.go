package broker

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gowebpki/jcs"

	"ebb/attest/jose"
	"ebb/broker/audit"
)

// ChoiceBreakGlass is what a passkey signs to begin a period, in the word of a choice.
const ChoiceBreakGlass = "break-glass"

// planFor is how long somebody may take to prove that they want what they planned.
const planFor = 10 * time.Minute

// maxPlan bounds a token: browsers keep 4096 bytes of a cookie, its name and attributes
// among them (RFC 6265 section 6.1).
const maxPlan = 3800

// BreakGlassPlan is a period that somebody asks for: what they prove that they want.
type BreakGlassPlan struct {
	ID       string    `json:"id"` // "brk_..."; a period that began has the same
	Person   string    `json:"person"`
	Incident string    `json:"incident"` // as the person named it
	Reason   string    `json:"reason"`
	TTL      Seconds   `json:"ttl_seconds"`
	Most     int       `json:"most"` // approvals under it
	AskedAt  time.Time `json:"asked_at"`
}

// Digest names who wants what, why, within which limits and since when (RFC 8785).
func (p BreakGlassPlan) Digest() string {
	p.AskedAt = p.AskedAt.UTC()
	raw, err := json.Marshal(p)
	if err == nil {
		raw, err = jcs.Transform(raw)
	}
	if err != nil { // text that is no UTF-8 was refused before
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// BreakGlassProof is what shows that a person, at this moment, wants what a plan says:
// either a passkey's assertion over its digest, or a sign-in at the identity provider that
// came after it.
type BreakGlassProof struct {
	Signed  string    // JSON of the assertion
	Passkey string    // by which passkey, its id in hex
	AuthAt  time.Time // of a sign-in, by the clock of the identity provider
	ACR     string    // how strongly they signed in, in the provider's words
	For     string    // the id of the plan that they signed in for; "" = for something else
	Session string    // id of the session in which it begins
	// SessionBegan is when the session did: a passkey that was made since proves nothing
	// beside it, because whoever has the session can make one.
	SessionBegan time.Time
	// SessionEnds is when the session ends at the latest, and so the period.
	SessionEnds time.Time
}

// PlanBreakGlass is the period that who would begin, and a token by which BeginBreakGlass
// knows it again. Nothing is kept of it.
func (b *Broker) PlanBreakGlass(who Principal, incident, reason string) (plan BreakGlassPlan, token string, err error) {
	if err := b.mayPlan(who); err != nil {
		return plan, "", err
	}
	reason = strings.TrimSpace(reason)
	c := b.cfg.BreakGlass
	plan = BreakGlassPlan{
		ID: newID(breakGlassPrefix), Person: who.ID, Incident: strings.TrimSpace(incident), Reason: reason,
		TTL: Seconds(c.TTL / time.Second), Most: c.Decisions, AskedAt: b.now().UTC().Truncate(time.Millisecond),
	}
	if err := plan.check(); err != nil {
		return plan, "", err
	}
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false) // a "<" is one byte of the cookie, and not six
	if err := e.Encode(plan); err != nil {
		return plan, "", err
	}
	text := base64.RawURLEncoding.EncodeToString(raw.Bytes())
	if token = text + "." + b.planMAC(text); len(token) > maxPlan {
		return plan, "", E(Invalid, "Say it in fewer words: a browser does not keep this much.", nil)
	}
	return plan, token, nil
}

func (b *Broker) mayPlan(who Principal) error {
	if err := allow(who, certain, who.Roles...); err != nil {
		return err
	}
	return b.MayBreakGlass(who)
}

func (p BreakGlassPlan) check() error {
	switch n := utf8.RuneCountInString(p.Reason); {
	case !incidentForm.MatchString(p.Incident):
		return E(Invalid, "Name the incident: letters, digits and . _ / # -, at most 64.", nil)
	case n < 10 || n > 500 || !jose.Plain(p.Reason):
		return E(Invalid, "Say in 10 to 500 printable characters why nobody else can be waited for.", nil)
	}
	return nil
}

// ReadBreakGlassPlan is what a token says: only to the person who was given it, within ten
// minutes, and while they may begin just that.
func (b *Broker) ReadBreakGlassPlan(who Principal, token string) (plan BreakGlassPlan, err error) {
	if err := b.mayPlan(who); err != nil {
		return plan, err
	}
	again := E(Conflict, "This is not what you were about to begin, or it was more than 10 minutes ago. Begin again.", nil)
	text, mac, _ := strings.Cut(token, ".")
	if !hmac.Equal([]byte(mac), []byte(b.planMAC(text))) {
		return plan, again
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &plan)
	}
	c, ago := b.cfg.BreakGlass, b.now().Sub(plan.AskedAt)
	if err != nil || plan.Person != who.ID || !validID(breakGlassPrefix, plan.ID) || ago < -ClockSkew || ago > planFor || plan.TTL.Duration() > c.TTL || plan.Most > c.Decisions {
		return BreakGlassPlan{}, again
	}
	return plan, plan.check()
}

// planMAC is what only ebb knows of a plan: a person must not say themselves since when
// they want it, because a sign-in that came before is no proof.
func (b *Broker) planMAC(text string) string {
	m := hmac.New(sha256.New, b.codeKey)
	m.Write([]byte("break-glass\x00" + text))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// provedAnew judges a sign-in: it was made for just this plan. The session that it made is of
// ebb's clock, also that of another replica, which is behind by less than a sign-in takes; the
// time that the identity provider names is of its own.
func (b *Broker) provedAnew(plan BreakGlassPlan, p BreakGlassProof) error {
	switch {
	case !p.SessionBegan.After(plan.AskedAt), p.AuthAt.Before(plan.AskedAt.Add(-ClockSkew)), p.AuthAt.After(b.now().Add(ClockSkew)):
		return E(Forbidden, "You proved who you are before you said what for. Do it again by the link above the form.", nil)
	case p.For != plan.ID:
		return E(Forbidden, "You proved who you are for something else. Do it again by the link above the form.", nil)
	}
	return nil
}

// proves judges a proof: by the record, which knows whose passkey it is, and by the time.
func (b *Broker) proves(ctx context.Context, who Principal, plan BreakGlassPlan, p BreakGlassProof) error {
	switch {
	case (p.Signed == "") == p.AuthAt.IsZero():
		return E(Forbidden, "Break-glass takes your passkey, or that you prove at your identity provider who you are after you said what for. A session alone is not enough.", nil)
	case p.Signed == "" && b.cfg.BreakGlass.Passkey:
		return E(Forbidden, "Break-glass takes a passkey here, as what is of high risk does: a sign-in anew is not enough.", nil)
	case p.Signed == "":
		return b.provedAnew(plan, p)
	case len(p.Signed) > MaxSeen:
		return E(Invalid, "The proof is longer than ebb keeps.", nil)
	case b.cfg.BreakGlass.Check == nil:
		return E(Forbidden, "Nothing here can judge a passkey.", nil)
	}
	var known audit.Answers
	for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{Kind: "passkey.", Actor: who.ID}) {
		if err == nil {
			err = known.Read(e)
		}
		if err != nil {
			return unavailable(err)
		}
	}
	s := audit.Signature{RequestID: plan.ID, Choice: ChoiceBreakGlass, Digest: plan.Digest(), By: who.ID, Passkey: p.Passkey, Proof: p.Signed}
	var err error
	if s.KeyHash, s.Registered, err = known.Registered(p.Passkey, who.ID, b.now()); err == nil && s.KeyHash == "" {
		err = ErrNotFound
	}
	if err == nil && !s.Registered.Before(p.SessionBegan) {
		return E(Forbidden, "This passkey was made in this session, and proves nothing beside it. Sign out, sign in again, and use it then.", nil)
	}
	if err == nil {
		err = b.cfg.BreakGlass.Check(s)
	}
	if err != nil {
		return E(Forbidden, "The passkey did not prove that you want just this. Send the form again.", err)
	}
	return nil
}
