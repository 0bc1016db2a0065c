package console

import (
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/risk"
	"ebb/web/console/passkey"
	"ebb/web/signin"
)

const (
	// freshFor is how old a sign-in may be with which somebody approves.
	freshFor = broker.FreshFor
	// groupsFor is how old the groups may be with which somebody approves: who has left
	// one must not go on deciding for it.
	groupsFor = 15 * time.Minute
)

// stepUp is what a person proves again to give this answer, of this risk, to what was asked
// at a moment. A no needs nothing: the safe way is the easy way. What proves it goes into
// the verdict; none = the session alone.
func (s *Console) stepUp(c echo.Context, v *visit, l risk.Level, asked time.Time, out *broker.Verdict, ds ...passkey.Decision) error {
	if ds[0].Choice == choiceDeny {
		return nil
	}
	if c.Request().PostForm.Get("assertion") != "" {
		err := s.proved(c, v, ds, out)
		if err == nil {
			s.provedNow(c, v)
		}
		out.Present = err == nil
		return err
	}
	w, err := s.proofOf(c, v, l, asked)
	if err != nil {
		return err
	}
	err = w.refusal()
	out.Present = err == nil
	return err
}

// fresh reports whether the person signed in a short time ago, as strongly as a decision
// needs, with groups that are still believed.
func (s *Console) fresh(v *visit) bool {
	if v.now.Sub(v.session.AuthAt) > freshFor || v.now.Sub(v.session.GroupsAt) > groupsFor {
		return false
	}
	p := s.prover(v)
	return p == nil || p.Strong(v.session.ACR)
}

// prover is the way by which this person can prove it again, nil when there is none but
// to sign in anew.
func (s *Console) prover(v *visit) signin.Prover {
	for _, m := range s.cfg.Methods {
		if p, ok := m.(signin.Prover); ok && m.Name() == v.session.Method {
			return p
		}
	}
	return nil
}

// Again is the path of the link by which the person proves it again and comes back to
// page, "" when there is no such way. A link and no form: a form may not lead to another
// origin (form-action).
func (v view) Again(page string) string {
	if v.s.prover(v.Who) == nil {
		return ""
	}
	return v.Base + page + "/again"
}

// again leads to the identity provider, and from there back to the request or the settings.
func (s *Console) again(c echo.Context, v *visit) error {
	to := "/settings"
	if id := c.Param("id"); id != "" {
		to = "/requests/" + url.PathEscape(id)
	}
	return s.proveAgain(c, v, to, "")
}

// proveAgain leads to a proof that is made now, and back. purpose: what it is for alone, by
// its id; "" = whatever takes a sign-in of a short time ago.
func (s *Console) proveAgain(c echo.Context, v *visit, back, purpose string) error {
	p := s.prover(v)
	if p == nil {
		return broker.E(broker.NotFound, "There is no provider to prove it to: sign in again.", nil)
	}
	setCookie(c, cookieTo, back, http.SameSiteLaxMode, 10*time.Minute)
	to := "/signin/" + p.Name() + "?again=1"
	if purpose != "" {
		to += "&for=" + url.QueryEscape(purpose)
	}
	return s.redirect(c, to)
}
