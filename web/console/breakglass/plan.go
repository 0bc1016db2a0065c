package breakglass

import (
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/passkey"
)

// cookieGlass holds the signed break-glass plan while the person proves their identity. It is
// SameSite=Lax, because the person returns from the identity provider by a cross-site link.
const cookieGlass = "__Host-ebb-glass"

// planGlass validates the form, stores the plan in a cookie, and redirects to
// the page where the person proves their identity.
func (ps *Pages) planGlass(c echo.Context, v *session.Visit) error {
	form := c.Request().PostForm
	in := glassPage{Incident: form.Get("incident"), Reason: form.Get("reason")}
	_, token, err := ps.Broker.PlanBreakGlass(v.Principal, in.Incident, in.Reason)
	if e := broker.AsError(err); e != nil && e.Kind == broker.Invalid {
		in.Problem = e.Public
		return ps.drawGlasses(c, http.StatusUnprocessableEntity, v, in)
	}
	if err != nil {
		return err
	}
	session.SetCookie(c, cookieGlass, token, http.SameSiteLaxMode, 10*time.Minute)
	return ps.Shell.Redirect(c, glassPath+"/plan")
}

// planPage shows the break-glass period that the person is about to start.
type planPage struct {
	broker.BreakGlassPlan
	Digest  string
	Token   string
	Ends    time.Time // the end if the period started now
	Key     string    // URL of the passkey challenge; "" = no usable passkey
	Anew    bool      // the person signed in again after planning
	Only    bool      // only a passkey is accepted
	New     bool      // every passkey of the person was created in this session, and those are not accepted
	Problem string
}

func (ps *Pages) plan(c echo.Context, v *session.Visit) error {
	return ps.drawPlan(c, http.StatusOK, v, session.Cookie(c, cookieGlass), "")
}

// passkeys reports whether the person has passkeys, and whether one of them can
// start break-glass: one that the person added before this session.
func (ps *Pages) passkeys(c echo.Context, v *session.Visit) (have, usable bool, err error) {
	if ps.Proofs.Available() != nil {
		return false, false, nil
	}
	all, err := ps.Proofs.Passkeys(c.Request().Context(), v)
	return len(all) > 0, slices.ContainsFunc(all, func(p people.Passkey) bool { return p.CreatedAt.Before(v.Session.CreatedAt) }), err
}

func (ps *Pages) drawPlan(c echo.Context, status int, v *session.Visit, token, problem string) error {
	plan, err := ps.Broker.ReadBreakGlassPlan(v.Principal, token)
	if err != nil {
		return err
	}
	page := planPage{BreakGlassPlan: plan, Digest: plan.Digest(), Token: token, Problem: problem, Ends: v.Now.Add(plan.TTL.Duration()), Only: ps.Broker.BreakGlassConfig().Passkey}
	if page.Ends.After(v.Session.ExpiresAt) {
		page.Ends = v.Session.ExpiresAt
	}
	page.Anew = !page.Only && ps.provedFor(v, plan)
	have, usable, err := ps.passkeys(c, v)
	if err != nil {
		return err
	}
	page.New = have && !usable
	if usable && !page.Anew {
		page.Key = ps.Shell.Base() + glassPath + "/challenge"
	}
	return ps.Shell.Draw(c, status, v, "breakglassplan", shell.Frame{Title: "Start break-glass", Nav: glassPath}, page)
}

// provedFor reports whether this session began with a new sign-in for this plan alone.
func (ps *Pages) provedFor(v *session.Visit, plan broker.BreakGlassPlan) bool {
	return ps.Proofs.Prover(v) != nil && ps.Proofs.Fresh(v) && v.Session.Purpose == plan.ID && v.Session.CreatedAt.After(plan.AskedAt)
}

// glassDecision is the statement that a passkey signs to start the planned period.
func glassDecision(plan broker.BreakGlassPlan) []passkey.Decision {
	return []passkey.Decision{{Request: plan.ID, Choice: approval.ChoiceBreakGlass, Digest: plan.Digest()}}
}

func (ps *Pages) challengeGlass(c echo.Context, v *session.Visit) error {
	plan, err := ps.Broker.ReadBreakGlassPlan(v.Principal, session.Cookie(c, cookieGlass))
	if err != nil {
		return err
	}
	return ps.Proofs.Ask(c, v, glassDecision(plan))
}

// againForGlass redirects to the identity provider for a sign-in bound to this
// plan, which returns to the plan.
func (ps *Pages) againForGlass(c echo.Context, v *session.Visit) error {
	plan, err := ps.Broker.ReadBreakGlassPlan(v.Principal, session.Cookie(c, cookieGlass))
	if err != nil {
		return err
	}
	return ps.Proofs.SignInAgain(c, v, glassPath+"/plan", plan.ID)
}

// beginGlass starts the planned period. The broker verifies the proof. This
// handler makes sure that the form belongs to this session and is sent once.
func (ps *Pages) beginGlass(c echo.Context, v *session.Visit) error {
	ctx, form := c.Request().Context(), c.Request().PostForm
	token := form.Get("plan")
	plan, err := ps.Broker.ReadBreakGlassPlan(v.Principal, token)
	if err != nil {
		return err
	}
	given := approval.BreakGlassProof{Session: v.Session.ID, SessionBegan: v.Session.CreatedAt, SessionEnds: v.Session.ExpiresAt}
	switch {
	case form.Get("assertion") != "":
		var signed broker.Verdict
		if err = ps.Proofs.Proved(c, v, glassDecision(plan), &signed); err == nil {
			given.Signed, given.Passkey = signed.Proof, signed.Passkey
		}
	case ps.Proofs.Prover(v) != nil && ps.Proofs.Fresh(v):
		given.AuthAt, given.ACR, given.For = v.Session.AuthAt, v.Session.ACR, v.Session.Purpose
	}
	var g broker.BreakGlass
	if err == nil {
		g, err = ps.Broker.BeginBreakGlass(ctx, v.Principal, token, given)
	}
	if e := broker.AsError(err); e != nil && e.Kind == broker.Forbidden {
		ev := web.EventOf(c)
		ev.Kind, ev.Cause = e.Kind, e.Cause
		return ps.drawPlan(c, http.StatusForbidden, v, token, e.Public)
	}
	if err != nil {
		return err
	}
	session.SetCookie(c, cookieGlass, "", http.SameSiteLaxMode, 0)
	return ps.Shell.Redirect(c, glassPath+"/"+g.ID)
}
