package proof

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

// Proof is the proof of identity that an approval needs in addition to a session.
type Proof string

// Proofs, from the weakest to the strictest.
const (
	ProofRecent  Proof = "recent"         // the person proved their identity within the last 10 minutes
	ProofIfAny   Proof = "passkey_if_any" // a passkey from people who have one, ProofRecent from others
	ProofPasskey Proof = "passkey"        // a passkey from everyone
)

// Friction is the proof required at each risk level. An empty value means the
// weakest allowed: recent at low risk, passkey_if_any at medium and high risk.
type Friction struct{ Low, Medium, High Proof }

// at returns the proof required at a risk level. An unknown level counts as high.
func (f Friction) at(l risk.Level) Proof {
	want, least := f.High, ProofIfAny
	switch l {
	case risk.Low:
		want, least = f.Low, ProofRecent
	case risk.Medium:
		want = f.Medium
	}
	order := map[Proof]int{ProofRecent: 1, ProofIfAny: 2, ProofPasskey: 3}
	if order[want] < order[least] {
		return least
	}
	return want
}

// Demand is the proof that one person needs for an approval now, and has.
type Demand struct {
	want   Proof
	level  risk.Level
	has    bool // the person has a passkey
	fresh  bool // the person proved their identity within the last 10 minutes
	anew   bool // the person signed in at the identity provider after the request was made
	prover bool // the session came from an identity provider
}

// Demand computes the proof that this approval needs and the person has. asked
// is the time of the request or draft to approve.
func (ps *Proofs) Demand(c echo.Context, v *session.Visit, l risk.Level, asked time.Time) (Demand, error) {
	_, lately := ps.provedLately(c, v)
	w := Demand{want: ps.friction.at(l), level: l, fresh: ps.Fresh(v) || lately, prover: ps.Prover(v) != nil}
	w.anew = w.prover && ps.Fresh(v) && v.Session.AuthAt.After(asked)
	if ps.keys == nil {
		return w, nil
	}
	have, err := ps.Passkeys(c.Request().Context(), v)
	w.has = len(have) > 0
	return w, err
}

// Key reports whether the form asks for the passkey.
func (w Demand) Key() bool { return w.has && (w.want != ProofRecent || !w.fresh) }

// Missing reports whether the person must sign in again or add a passkey before they can approve.
func (w Demand) Missing() bool {
	return !w.has && (!w.fresh || w.want == ProofPasskey)
}

// Register reports whether the person must add a passkey first.
func (w Demand) Register() bool { return !w.has && w.want == ProofPasskey }

// Says tells the person, before they approve, which proof the approval needs.
func (w Demand) Says() string {
	risks := map[risk.Level]string{risk.Low: "Low risk: ", risk.Medium: "Medium risk: ", risk.High: "High risk: "}[w.level]
	switch {
	case w.level == risk.High && w.Key():
		return risks + "type the name of the target, then confirm with your passkey."
	case w.level == risk.High:
		return risks + "type the name of the target; you must have proved your identity within the last 10 minutes."
	case w.Key() && w.want == ProofRecent:
		return risks + "confirm with your passkey once in 10 minutes."
	case w.Key():
		return risks + "confirm with your passkey."
	case w.want == ProofRecent && w.fresh:
		return risks + "one click, because you proved your identity within the last 10 minutes."
	}
	return risks + "you must have proved your identity within the last 10 minutes."
}

// SaysPublishing is the text of Says for publishing a draft of policies.
func (w Demand) SaysPublishing() string {
	if w.Key() {
		return "Your passkey signs the draft and this answer."
	}
	return "You must have proved your identity within the last 10 minutes."
}

// refusal returns why an approval without a passkey assertion is refused, or
// nil when it is accepted.
func (w Demand) refusal() error {
	no := func(text string) error { return broker.E(broker.Forbidden, text, nil) }
	switch {
	case w.Register():
		return no("This approval needs a passkey, and you have none. Add one in the settings.")
	case w.want == ProofPasskey || w.has && w.want == ProofIfAny && !w.anew && !w.prover:
		return no("You have a passkey, and approvals at this risk need it. Press the button again and use it.")
	case w.has && w.want == ProofIfAny && !w.anew:
		return no("You have a passkey, and approvals at this risk need it. Press the button again and use the passkey, or sign in again at your identity provider with the link on this page.")
	case w.fresh:
		return nil
	case !w.prover:
		return no("To approve, you must have signed in within the last 10 minutes. Sign in again in another tab ('ebb console' prints a new link), then send this form again.")
	}
	return no("To approve, you must have signed in within the last 10 minutes with the required strength (acr). Sign in again with the link on this page, then send this form again.")
}

// cookieProved holds the time at which this session last used a passkey, with a MAC bound to the
// session. Approvals at low risk ask for the passkey once in 10 minutes.
const cookieProved = "__Host-ebb-proved"

func (ps *Proofs) provedNow(c echo.Context, v *session.Visit) {
	at := strconv.FormatInt(v.Now.Unix(), 10)
	session.SetCookie(c, cookieProved, at+"."+ps.provedMAC(v, at), http.SameSiteStrictMode, freshFor)
}

// provedLately returns when this session last used a passkey, and whether that
// was within the last 10 minutes.
func (ps *Proofs) provedLately(c echo.Context, v *session.Visit) (time.Time, bool) {
	text, mac, _ := strings.Cut(session.Cookie(c, cookieProved), ".")
	if !hmac.Equal([]byte(mac), []byte(ps.provedMAC(v, text))) {
		return time.Time{}, false
	}
	sec, err := strconv.ParseInt(text, 10, 64)
	at := time.Unix(sec, 0).UTC()
	ago := v.Now.Sub(at)
	return at, err == nil && ago >= 0 && ago <= freshFor && (v.Session.Method == session.MethodLink || v.Now.Sub(v.Session.GroupsAt) <= groupsFor)
}

func (ps *Proofs) provedMAC(v *session.Visit, at string) string {
	m := hmac.New(sha256.New, ps.key)
	m.Write([]byte("proved\x00" + v.Session.ID + "\x00" + at))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
