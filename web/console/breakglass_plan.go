package console

import (
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/people"
	"ebb/web"
	"ebb/web/console/passkey"
)

// cookieGlass holds what somebody is about to begin, while they prove it: Lax, because
// from the identity provider they come back by a link.
const cookieGlass = "__Host-ebb-glass"

// planGlass takes what somebody wants, and leads to where they prove it.
func (s *Console) planGlass(c echo.Context, v *visit) error {
	form := c.Request().PostForm
	in := glassPage{Incident: form.Get("incident"), Reason: form.Get("reason")}
	_, token, err := s.b.PlanBreakGlass(v.Principal, in.Incident, in.Reason)
	if e := broker.AsError(err); e != nil && e.Kind == broker.Invalid {
		in.Problem = e.Public
		return s.drawGlasses(c, http.StatusUnprocessableEntity, v, in)
	}
	if err != nil {
		return err
	}
	setCookie(c, cookieGlass, token, http.SameSiteLaxMode, 10*time.Minute)
	return s.redirect(c, glassPath+"/plan")
}

// planPage is what somebody is about to begin.
type planPage struct {
	broker.BreakGlassPlan
	Digest  string
	Token   string
	Ends    time.Time // when it would, if it began now
	Key     string    // where the script gets what the passkey signs; "" = they have none
	Anew    bool      // proved at the identity provider, since it was planned
	Only    bool      // a passkey: nothing else counts
	New     bool      // they have none but of this session, and those do not count
	Problem string
}

func (s *Console) plan(c echo.Context, v *visit) error {
	return s.drawPlan(c, http.StatusOK, v, cookie(c, cookieGlass), "")
}

func (s *Console) drawPlan(c echo.Context, status int, v *visit, token, problem string) error {
	plan, err := s.b.ReadBreakGlassPlan(v.Principal, token)
	if err != nil {
		return err
	}
	page := planPage{BreakGlassPlan: plan, Digest: plan.Digest(), Token: token, Problem: problem, Ends: v.now.Add(plan.TTL.Duration()), Only: s.b.BreakGlassConfig().Passkey}
	if page.Ends.After(v.session.ExpiresAt) {
		page.Ends = v.session.ExpiresAt
	}
	page.Anew = !page.Only && s.provedFor(v, plan)
	if s.keys != nil {
		have, err := s.passkeys(c.Request().Context(), v)
		if err != nil {
			return err
		}
		older := slices.ContainsFunc(have, func(p people.Passkey) bool { return p.CreatedAt.Before(v.session.CreatedAt) })
		page.New = len(have) > 0 && !older
		if older && !page.Anew {
			page.Key = s.mux.Base() + glassPath + "/challenge"
		}
	}
	return s.draw(c, status, v, "breakglassplan", frame{Title: "Break the glass", Nav: glassPath}, page)
}

// provedFor reports whether the person came into this session by proving anew who they are,
// for just this plan.
func (s *Console) provedFor(v *visit, plan broker.BreakGlassPlan) bool {
	return s.prover(v) != nil && s.fresh(v) && v.session.Purpose == plan.ID && v.session.CreatedAt.After(plan.AskedAt)
}

// glassDecision is what a passkey signs to begin what was planned.
func glassDecision(plan broker.BreakGlassPlan) []passkey.Decision {
	return []passkey.Decision{{Request: plan.ID, Choice: broker.ChoiceBreakGlass, Digest: plan.Digest()}}
}

func (s *Console) challengeGlass(c echo.Context, v *visit) error {
	plan, err := s.b.ReadBreakGlassPlan(v.Principal, cookie(c, cookieGlass))
	if err != nil {
		return err
	}
	return s.ask(c, v, glassDecision(plan))
}

// againForGlass leads to the identity provider, for what was planned and nothing else, and
// from there back to it.
func (s *Console) againForGlass(c echo.Context, v *visit) error {
	plan, err := s.b.ReadBreakGlassPlan(v.Principal, cookie(c, cookieGlass))
	if err != nil {
		return err
	}
	return s.proveAgain(c, v, glassPath+"/plan", plan.ID)
}

// beginGlass begins what was planned. The broker judges the proof; here it is made sure
// that this form, of this session, shows it now and once.
func (s *Console) beginGlass(c echo.Context, v *visit) error {
	ctx, form := c.Request().Context(), c.Request().PostForm
	token := form.Get("plan")
	plan, err := s.b.ReadBreakGlassPlan(v.Principal, token)
	if err != nil {
		return err
	}
	proof := broker.BreakGlassProof{Session: v.session.ID, SessionBegan: v.session.CreatedAt, SessionEnds: v.session.ExpiresAt}
	switch {
	case form.Get("assertion") != "":
		var signed broker.Verdict
		if err = s.proved(c, v, glassDecision(plan), &signed); err == nil {
			proof.Signed, proof.Passkey = signed.Proof, signed.Passkey
		}
	case s.prover(v) != nil && s.fresh(v):
		proof.AuthAt, proof.ACR, proof.For = v.session.AuthAt, v.session.ACR, v.session.Purpose
	}
	var g broker.BreakGlass
	if err == nil {
		g, err = s.b.BeginBreakGlass(ctx, v.Principal, token, proof)
	}
	if e := broker.AsError(err); e != nil && e.Kind == broker.Forbidden {
		ev := web.EventOf(c)
		ev.Kind, ev.Cause = e.Kind, e.Cause
		return s.drawPlan(c, http.StatusForbidden, v, token, e.Public)
	}
	if err != nil {
		return err
	}
	setCookie(c, cookieGlass, "", http.SameSiteLaxMode, 0)
	return s.redirect(c, glassPath+"/"+g.ID)
}
