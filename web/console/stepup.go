package console

import (
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/signin"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// freshFor is the maximum age of a sign-in for an approval.
	freshFor = identity.FreshFor
	// groupsFor is the maximum age of the groups for an approval, so that a
	// person who has left a group stops deciding for it.
	groupsFor = 15 * time.Minute
)

// stepUp verifies the additional proof that this answer needs at this risk.
// asked is the time of the request. A denial needs no further proof. The proof
// is stored in the verdict; without one the session is the only proof.
func (vs *visits) stepUp(c echo.Context, v *visit, l risk.Level, asked time.Time, out *broker.Verdict, ds ...passkey.Decision) error {
	if ds[0].Choice == choiceDeny {
		return nil
	}
	if c.Request().PostForm.Get("assertion") != "" {
		if err := vs.proved(c, v, ds, out); err != nil {
			return err
		}
		vs.requests.provedNow(c, v)
		out.Present, out.Presence = true, broker.Presence{By: approval.PresenceByPasskey, ProvedAt: v.now.UTC()}
		return nil
	}
	w, err := vs.requests.proofOf(c, v, l, asked)
	if err != nil {
		return err
	}
	if err := w.refusal(); err != nil {
		return err
	}
	out.Present, out.Presence = true, vs.presence(c, v)
	return nil
}

// presence returns the proof of the last 10 minutes that this session has: its
// sign-in, or a passkey used in it.
func (vs *visits) presence(c echo.Context, v *visit) broker.Presence {
	if vs.fresh(v) {
		return broker.Presence{By: v.session.Method, ProvedAt: v.session.AuthAt.UTC(), ACR: v.session.ACR}
	}
	at, _ := vs.requests.provedLately(c, v)
	return broker.Presence{By: approval.PresenceByPasskey, ProvedAt: at}
}

// fresh reports whether the person signed in within the last 10 minutes, with
// the strength that a decision needs, and with groups that are still current.
func (vs *visits) fresh(v *visit) bool {
	if v.now.Sub(v.session.AuthAt) > freshFor || v.now.Sub(v.session.GroupsAt) > groupsFor {
		return false
	}
	p := vs.prover(v)
	return p == nil || p.Strong(v.session.ACR)
}

// prover returns the method by which the person can sign in again without
// losing the page, or nil when they must sign in as usual.
func (vs *visits) prover(v *visit) signin.Prover {
	for _, m := range vs.methods {
		if p, ok := m.(signin.Prover); ok && m.Name() == v.session.Method {
			return p
		}
	}
	return nil
}

// Again returns the path of the link that signs the person in again and returns
// to page, or "" when there is no such method. It is a link and not a form,
// because form-action does not allow forms to another origin.
func (v view) Again(page string) string {
	if v.s.visits.prover(v.Who) == nil {
		return ""
	}
	return v.Base + page + "/again"
}

// again redirects to the identity provider, which returns to the request or the
// settings.
func (vs *visits) again(c echo.Context, v *visit) error {
	to := "/settings"
	if id := c.Param("id"); id != "" {
		to = "/requests/" + url.PathEscape(id)
	}
	return vs.proveAgain(c, v, to, "")
}

// proveAgain redirects to a new sign-in that returns to back. purpose is the id
// of the only action that the sign-in is valid for; "" = every action that
// needs a recent sign-in.
func (vs *visits) proveAgain(c echo.Context, v *visit, back, purpose string) error {
	p := vs.prover(v)
	if p == nil {
		return broker.E(broker.NotFound, "Your sign-in method cannot confirm a session. Sign out and sign in again.", nil)
	}
	setCookie(c, cookieTo, back, http.SameSiteLaxMode, 10*time.Minute)
	to := "/signin/" + p.Name() + "?again=1"
	if purpose != "" {
		to += "&for=" + url.QueryEscape(purpose)
	}
	return vs.redirect(c, to)
}
