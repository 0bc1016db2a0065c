package proof

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/signin"
)

const (
	// freshFor is the maximum age of a sign-in for an approval.
	freshFor = identity.FreshFor
	// groupsFor is the maximum age of the groups for an approval, so that a
	// person who has left a group stops deciding for it.
	groupsFor = 15 * time.Minute
)

// The choices of the decide form. Passkeys sign them, so they must not change.
const (
	ChoiceDeny    = "deny"
	ChoiceNarrow  = "narrow"
	ChoiceApprove = "approve"
	ChoicePublish = "publish" // publish a draft of policies
	ChoiceAlone   = "approve-alone"
)

// Broker is the part of the core that proofs call.
type Broker interface {
	// Once claims a key until a time. It returns an error of kind Conflict when
	// the key was claimed before.
	Once(ctx context.Context, key string, until time.Time) error
}

// Config holds the dependencies of New.
type Config struct {
	Broker   Broker
	Friction Friction
	Key      []byte        // of the cookie of a proof
	Keys     *passkey.Keys // nil: passkeys do not work at this host
	Passkeys people.PasskeyStore
	Methods  []signin.Method
	Shell    *shell.Shell
}

// Proofs demands and verifies proofs of presence.
type Proofs struct {
	b        Broker
	friction Friction
	key      []byte
	keys     *passkey.Keys
	store    people.PasskeyStore
	methods  []signin.Method
	shell    *shell.Shell
}

// New returns the proofs of a console.
func New(c Config) *Proofs {
	return &Proofs{b: c.Broker, friction: c.Friction, key: c.Key, keys: c.Keys, store: c.Passkeys, methods: c.Methods, shell: c.Shell}
}

// StepUp verifies the additional proof that this answer needs at this risk.
// asked is the time of the request. A denial needs no further proof. The proof
// is stored in the verdict; without one the session is the only proof.
func (ps *Proofs) StepUp(c echo.Context, v *session.Visit, l risk.Level, asked time.Time, out *broker.Verdict, ds ...passkey.Decision) error {
	if ds[0].Choice == ChoiceDeny {
		return nil
	}
	if c.Request().PostForm.Get("assertion") != "" {
		if err := ps.Proved(c, v, ds, out); err != nil {
			return err
		}
		ps.provedNow(c, v)
		out.Present, out.Presence = true, broker.Presence{By: approval.PresenceByPasskey, ProvedAt: v.Now.UTC()}
		return nil
	}
	w, err := ps.Demand(c, v, l, asked)
	if err != nil {
		return err
	}
	if err := w.refusal(); err != nil {
		return err
	}
	out.Present, out.Presence = true, ps.presence(c, v)
	return nil
}

// presence returns the proof of the last 10 minutes that this session has: its
// sign-in, or a passkey used in it.
func (ps *Proofs) presence(c echo.Context, v *session.Visit) broker.Presence {
	if ps.Fresh(v) {
		return broker.Presence{By: v.Session.Method, ProvedAt: v.Session.AuthAt.UTC(), ACR: v.Session.ACR}
	}
	at, _ := ps.provedLately(c, v)
	return broker.Presence{By: approval.PresenceByPasskey, ProvedAt: at}
}

// Fresh reports whether the person signed in within the last 10 minutes, with
// the strength that a decision needs, and with groups that are still current.
func (ps *Proofs) Fresh(v *session.Visit) bool {
	if v.Now.Sub(v.Session.AuthAt) > freshFor || v.Now.Sub(v.Session.GroupsAt) > groupsFor {
		return false
	}
	p := ps.Prover(v)
	return p == nil || p.Strong(v.Session.ACR)
}

// Prover returns the method by which the person can sign in again without
// losing the page, or nil when they must sign in as usual.
func (ps *Proofs) Prover(v *session.Visit) signin.Prover {
	for _, m := range ps.methods {
		if p, ok := m.(signin.Prover); ok && m.Name() == v.Session.Method {
			return p
		}
	}
	return nil
}

// SignInAgain redirects to a new sign-in that returns to back. purpose is the id of the only action
// that the sign-in is valid for; "" = every action that needs a recent sign-in.
func (ps *Proofs) SignInAgain(c echo.Context, v *session.Visit, back, purpose string) error {
	p := ps.Prover(v)
	if p == nil {
		return broker.E(broker.NotFound, "Your sign-in method cannot confirm a session. Sign out and sign in again.", nil)
	}
	session.SetCookie(c, session.CookieTo, back, http.SameSiteLaxMode, 10*time.Minute)
	to := "/signin/" + p.Name() + "?again=1"
	if purpose != "" {
		to += "&for=" + url.QueryEscape(purpose)
	}
	return ps.shell.Redirect(c, to)
}

// Again returns the path of the link that signs the person in again and returns
// to page, or "" when there is no such method. It is a link and not a form,
// because form-action does not allow forms to another origin.
func (ps *Proofs) Again(v shell.View, page string) string {
	if ps.Prover(v.Who) == nil {
		return ""
	}
	return v.Base + page + "/again"
}
