package console

import (
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
)

// cookieGlass holds the signed break-glass plan while the person proves their
// identity. It is SameSite=Lax, because the person returns from the identity
// provider by a cross-site link.
const cookieGlass = "__Host-ebb-glass"

// planGlass validates the form, stores the plan in a cookie, and redirects to
// the page where the person proves their identity.
func (ep *emergencyPages) planGlass(c echo.Context, v *visit) error {
	form := c.Request().PostForm
	in := glassPage{Incident: form.Get("incident"), Reason: form.Get("reason")}
	_, token, err := ep.b.PlanBreakGlass(v.Principal, in.Incident, in.Reason)
	if e := broker.AsError(err); e != nil && e.Kind == broker.Invalid {
		in.Problem = e.Public
		return ep.drawGlasses(c, http.StatusUnprocessableEntity, v, in)
	}
	if err != nil {
		return err
	}
	setCookie(c, cookieGlass, token, http.SameSiteLaxMode, 10*time.Minute)
	return ep.visits.redirect(c, glassPath+"/plan")
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

func (ep *emergencyPages) plan(c echo.Context, v *visit) error {
	return ep.drawPlan(c, http.StatusOK, v, cookie(c, cookieGlass), "")
}

func (ep *emergencyPages) drawPlan(c echo.Context, status int, v *visit, token, problem string) error {
	plan, err := ep.b.ReadBreakGlassPlan(v.Principal, token)
	if err != nil {
		return err
	}
	page := planPage{BreakGlassPlan: plan, Digest: plan.Digest(), Token: token, Problem: problem, Ends: v.now.Add(plan.TTL.Duration()), Only: ep.b.BreakGlassConfig().Passkey}
	if page.Ends.After(v.session.ExpiresAt) {
		page.Ends = v.session.ExpiresAt
	}
	page.Anew = !page.Only && ep.provedFor(v, plan)
	if ep.keys != nil {
		have, err := ep.visits.passkeys(c.Request().Context(), v)
		if err != nil {
			return err
		}
		older := slices.ContainsFunc(have, func(p people.Passkey) bool { return p.CreatedAt.Before(v.session.CreatedAt) })
		page.New = len(have) > 0 && !older
		if older && !page.Anew {
			page.Key = ep.mux.Base() + glassPath + "/challenge"
		}
	}
	return ep.pages.draw(c, status, v, "breakglassplan", frame{Title: "Start break-glass", Nav: glassPath}, page)
}

// provedFor reports whether this session began with a new sign-in for this plan
// alone.
func (ep *emergencyPages) provedFor(v *visit, plan broker.BreakGlassPlan) bool {
	return ep.visits.prover(v) != nil && ep.visits.fresh(v) && v.session.Purpose == plan.ID && v.session.CreatedAt.After(plan.AskedAt)
}

// glassDecision is the statement that a passkey signs to start the planned
// period.
func glassDecision(plan broker.BreakGlassPlan) []passkey.Decision {
	return []passkey.Decision{{Request: plan.ID, Choice: approval.ChoiceBreakGlass, Digest: plan.Digest()}}
}

func (ep *emergencyPages) challengeGlass(c echo.Context, v *visit) error {
	plan, err := ep.b.ReadBreakGlassPlan(v.Principal, cookie(c, cookieGlass))
	if err != nil {
		return err
	}
	return ep.visits.ask(c, v, glassDecision(plan))
}

// againForGlass redirects to the identity provider for a sign-in bound to this
// plan, which returns to the plan.
func (ep *emergencyPages) againForGlass(c echo.Context, v *visit) error {
	plan, err := ep.b.ReadBreakGlassPlan(v.Principal, cookie(c, cookieGlass))
	if err != nil {
		return err
	}
	return ep.visits.proveAgain(c, v, glassPath+"/plan", plan.ID)
}

// beginGlass starts the planned period. The broker verifies the proof. This
// handler makes sure that the form belongs to this session and is sent once.
func (ep *emergencyPages) beginGlass(c echo.Context, v *visit) error {
	ctx, form := c.Request().Context(), c.Request().PostForm
	token := form.Get("plan")
	plan, err := ep.b.ReadBreakGlassPlan(v.Principal, token)
	if err != nil {
		return err
	}
	proof := approval.BreakGlassProof{Session: v.session.ID, SessionBegan: v.session.CreatedAt, SessionEnds: v.session.ExpiresAt}
	switch {
	case form.Get("assertion") != "":
		var signed broker.Verdict
		if err = ep.visits.proved(c, v, glassDecision(plan), &signed); err == nil {
			proof.Signed, proof.Passkey = signed.Proof, signed.Passkey
		}
	case ep.visits.prover(v) != nil && ep.visits.fresh(v):
		proof.AuthAt, proof.ACR, proof.For = v.session.AuthAt, v.session.ACR, v.session.Purpose
	}
	var g broker.BreakGlass
	if err == nil {
		g, err = ep.b.BeginBreakGlass(ctx, v.Principal, token, proof)
	}
	if e := broker.AsError(err); e != nil && e.Kind == broker.Forbidden {
		ev := web.EventOf(c)
		ev.Kind, ev.Cause = e.Kind, e.Cause
		return ep.drawPlan(c, http.StatusForbidden, v, token, e.Public)
	}
	if err != nil {
		return err
	}
	setCookie(c, cookieGlass, "", http.SameSiteLaxMode, 0)
	return ep.visits.redirect(c, glassPath+"/"+g.ID)
}
