package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/risk"
)

// Proof is what somebody shows to approve something, beside being signed in.
type Proof string

// Proofs, from the weakest to the strictest.
const (
	ProofRecent  Proof = "recent"         // they proved who they are within ten minutes
	ProofIfAny   Proof = "passkey_if_any" // the passkey of who has one; of others as recent
	ProofPasskey Proof = "passkey"        // a passkey, whoever it is
)

// Friction is what is asked for at each risk; "" = the weakest that there is: recent at low
// risk, passkey_if_any at medium and high.
type Friction struct{ Low, Medium, High Proof }

// at is what is asked for at a risk. A risk that is none is the highest.
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

// proofState is what one person has to show for an approval at this moment.
type proofState struct {
	want   Proof
	level  risk.Level
	has    bool // a passkey that works here
	fresh  bool // a proof of the last ten minutes
	anew   bool // at the identity provider, since it was asked
	prover bool // there is such a provider
}

// proofOf looks what there is to show. asked: when what is approved was asked for.
func (s *Console) proofOf(c echo.Context, v *visit, l risk.Level, asked time.Time) (proofState, error) {
	w := proofState{want: s.cfg.Friction.at(l), level: l, fresh: s.fresh(v) || s.provedLately(c, v), prover: s.prover(v) != nil}
	w.anew = w.prover && s.fresh(v) && v.session.AuthAt.After(asked)
	if s.keys == nil {
		return w, nil
	}
	have, err := s.passkeys(c.Request().Context(), v)
	w.has = len(have) > 0
	return w, err
}

// Key reports whether the form asks the passkey.
func (w proofState) Key() bool { return w.has && (w.want != ProofRecent || !w.fresh) }

// Missing reports whether they can show nothing here: they have to do something else first.
func (w proofState) Missing() bool {
	return !w.has && (!w.fresh || w.want == ProofPasskey)
}

// Register reports whether that is to make a passkey.
func (w proofState) Register() bool { return !w.has && w.want == ProofPasskey }

// Says tells before somebody begins what it will take.
func (w proofState) Says() string {
	risks := map[risk.Level]string{risk.Low: "Low risk: ", risk.Medium: "Medium risk: ", risk.High: "High risk: "}[w.level]
	switch {
	case w.level == risk.High && w.Key():
		return risks + "type the name of the target, and then your passkey signs the answer."
	case w.level == risk.High:
		return risks + "type the name of the target; you must have proved who you are within the last 10 minutes."
	case w.Key() && w.want == ProofRecent:
		return risks + "your passkey, once in 10 minutes."
	case w.Key():
		return risks + "your passkey signs the answer."
	case w.want == ProofRecent && w.fresh:
		return risks + "one click, because you proved who you are within the last 10 minutes."
	}
	return risks + "you must have proved who you are within the last 10 minutes."
}

// SaysPublishing is the same for a draft of policies, which decides more than any request.
func (w proofState) SaysPublishing() string {
	if w.Key() {
		return "Your passkey signs the draft and this answer."
	}
	return "You must have proved who you are within the last 10 minutes."
}

// refusal is why an approval that came without an assertion does not count; nil = it does.
func (w proofState) refusal() error {
	no := func(text string) error { return broker.E(broker.Forbidden, text, nil) }
	switch {
	case w.Register():
		return no("This ebb asks for a passkey to approve this, and you have none. Make one in the settings.")
	case w.want == ProofPasskey || w.has && w.want == ProofIfAny && !w.anew && !w.prover:
		return no("You have a passkey, and what is of this risk needs it: press the button again and use it.")
	case w.has && w.want == ProofIfAny && !w.anew:
		return no("You have a passkey, and what is of this risk needs it: press the button again and use it, or prove who you are at your identity provider by the link above the forms.")
	case w.fresh:
		return nil
	case !w.prover:
		return no("To approve, you must have signed in within the last 10 minutes. Sign in again in another tab (with `ebb console` for a new link), then send this form again.")
	}
	return no("To approve, you must have proved who you are within the last 10 minutes, as strongly as this ebb asks. Do it again by the link above the forms, then send this form.")
}

// cookieProved says when this session last showed a passkey: what is of low risk asks for
// it once in ten minutes. It is a MAC, good in one session.
const cookieProved = "__Host-ebb-proved"

func (s *Console) provedNow(c echo.Context, v *visit) {
	at := strconv.FormatInt(v.now.Unix(), 10)
	setCookie(c, cookieProved, at+"."+s.provedMAC(v, at), http.SameSiteStrictMode, freshFor)
}

func (s *Console) provedLately(c echo.Context, v *visit) bool {
	at, mac, _ := strings.Cut(cookie(c, cookieProved), ".")
	if !hmac.Equal([]byte(mac), []byte(s.provedMAC(v, at))) {
		return false
	}
	sec, err := strconv.ParseInt(at, 10, 64)
	ago := v.now.Sub(time.Unix(sec, 0))
	return err == nil && ago >= 0 && ago <= freshFor && (v.session.Method == methodLink || v.now.Sub(v.session.GroupsAt) <= groupsFor)
}

func (s *Console) provedMAC(v *visit, at string) string {
	m := hmac.New(sha256.New, s.cfg.Key)
	m.Write([]byte("proved\x00" + v.session.ID + "\x00" + at))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
