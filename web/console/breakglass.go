package console

import (
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/people"
	"ebb/web"
	"ebb/web/console/passkey"
)

const glassPath = "/break-glass"

// cookieGlass holds what somebody is about to begin, while they prove it: Lax, because
// from the identity provider they come back by a link.
const cookieGlass = "__Host-ebb-glass"

// glassRow is one period, as a list or the banner has it.
type glassRow struct {
	broker.BreakGlass
	Word, Tone string // its state
	Open       bool
}

func glassRowOf(g broker.BreakGlass, now time.Time) glassRow {
	row := glassRow{BreakGlass: g, Word: "waits for its review", Tone: "warn"}
	switch {
	case g.Open(now):
		row.Word, row.Tone, row.Open = "open", "bad", true
	case !g.ReviewedAt.IsZero():
		row.Word, row.Tone = "reviewed", "good"
	case g.Overdue(now):
		row.Word, row.Tone = "review overdue", "bad"
	}
	return row
}

// banner is what every page says to everybody: who approves alone, and what nobody has
// reviewed. That it cannot be read keeps nobody from the page.
func (s *Console) banner(c echo.Context, v *visit) (out []glassRow) {
	gs, err := s.b.BreakGlassNow(c.Request().Context(), v.Principal)
	if err != nil {
		return nil
	}
	for _, g := range gs {
		out = append(out, glassRowOf(g, v.now))
	}
	slices.SortStableFunc(out, func(a, b glassRow) int { return rank(a) - rank(b) })
	return out
}

func rank(g glassRow) int {
	switch {
	case g.Open:
		return 0
	case g.Tone == "bad":
		return 1
	}
	return 2
}

// glassPage is the list, and the form to begin one.
type glassPage struct {
	Rows             []glassRow
	Older            string // id after which there are more; "" = none
	All              bool   // reads all of them, with why
	May              bool
	Why              string // why not
	Limits           broker.BreakGlassConfig
	Incident, Reason string
	Problem          string
}

const glassRows = 50

func (s *Console) glasses(c echo.Context, v *visit) error {
	return s.drawGlasses(c, http.StatusOK, v, glassPage{})
}

func (s *Console) drawGlasses(c echo.Context, status int, v *visit, page glassPage) error {
	a := readAsked(c)
	f := broker.BreakGlassFilter{After: a.cursor("after"), Limit: glassRows + 1}
	if err := a.done(); err != nil {
		return err
	}
	gs, err := s.b.BreakGlasses(c.Request().Context(), v.Principal, f)
	if err != nil {
		return err
	}
	if len(gs) > glassRows {
		gs = gs[:glassRows]
		page.Older = gs[glassRows-1].ID
	}
	for _, g := range gs {
		page.Rows = append(page.Rows, glassRowOf(g, v.now))
	}
	page.All, page.Limits = v.Has(broker.RoleAuditor, broker.RoleOperator), s.b.BreakGlassConfig()
	if err := s.b.MayBreakGlass(v.Principal); err != nil {
		page.Why = broker.AsError(err).Public
	} else {
		page.May = true
	}
	return s.draw(c, status, v, "breakglass", frame{Title: "Break-glass", Nav: glassPath}, page)
}

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
	page.Anew = !page.Only && s.prover(v) != nil && s.fresh(v) && v.session.AuthAt.After(plan.AskedAt)
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

// againForGlass leads to the identity provider, and from there back to what was planned.
func (s *Console) againForGlass(c echo.Context, v *visit) error {
	return s.proveAgain(c, v, glassPath+"/plan")
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
	proof := broker.BreakGlassProof{SessionBegan: v.session.CreatedAt, SessionEnds: v.session.ExpiresAt}
	switch {
	case form.Get("assertion") != "":
		var signed broker.Verdict
		if err = s.proved(c, v, glassDecision(plan), &signed); err == nil {
			proof.Signed, proof.Passkey = signed.Proof, signed.Passkey
		}
	case s.prover(v) != nil && s.fresh(v):
		proof.AuthAt, proof.ACR = v.session.AuthAt, v.session.ACR
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

// glassOne is the page of one period.
type glassOne struct {
	glassRow
	All      bool
	Digest   string
	Proof    string // what proved it, and whether that holds
	Holds    bool
	Approved []glassApproval
	Ends     bool   // may end it
	Reviews  bool   // may review it
	Not      string // why not, of an auditor
	Due      time.Time
	Note     string // as typed
	Problem  string
}

// glassApproval is one request that was approved under it.
type glassApproval struct {
	broker.Request
	At   time.Time
	Yes  string // what was said yes to
	Path string
}

func (s *Console) glass(c echo.Context, v *visit) error {
	return s.drawGlass(c, http.StatusOK, v, "", "")
}

func (s *Console) drawGlass(c echo.Context, status int, v *visit, note, problem string) error {
	ctx := c.Request().Context()
	g, err := s.b.BreakGlassOf(ctx, v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	mine := g.Person == v.ID
	page := glassOne{glassRow: glassRowOf(g, v.now), All: v.Has(broker.RoleAuditor, broker.RoleOperator) || mine, Digest: g.Digest(), Note: note, Problem: problem, Due: g.Over().Add(broker.BreakGlassReview)}
	page.Ends = page.Open && page.All
	if page.All {
		if page.Proof, page.Holds, err = s.glassProof(c, g); err != nil {
			return err
		}
		if page.Approved, err = s.approvedUnder(c, v, g); err != nil {
			return err
		}
	}
	if v.Has(broker.RoleAuditor) && g.ReviewedAt.IsZero() && !page.Open {
		if err := broker.MayReview(v.Principal, g); err != nil {
			page.Not = broker.AsError(err).Public
		} else {
			page.Reviews = true
		}
	}
	return s.draw(c, status, v, "breakglassone", frame{Title: "Break-glass: " + g.Incident, Nav: glassPath}, page)
}

// approvedUnder is what was approved under a period, as far as the person sees requests.
func (s *Console) approvedUnder(c echo.Context, v *visit, g broker.BreakGlass) (out []glassApproval, err error) {
	rs, err := s.b.Requests(c.Request().Context(), v.Principal, broker.RequestFilter{BreakGlass: g.ID, Page: broker.Page{Limit: 100}})
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		for _, vote := range r.Votes {
			if vote.BreakGlass == g.ID {
				out = append(out, glassApproval{Request: r, At: vote.At, Yes: vote.Scopes.String() + " for " + span(vote.TTL.Duration()), Path: "/requests/" + r.ID})
			}
		}
	}
	return out, nil
}

// glassProof says what proved that the person wanted it, and whether that holds now.
func (s *Console) glassProof(c echo.Context, g broker.BreakGlass) (says string, holds bool, err error) {
	if g.Proof == "" {
		says = "proved at the identity provider at " + g.AuthAt.UTC().Format("15:04:05 UTC") + ", " + span(g.AuthAt.Sub(g.AskedAt)) + " after saying what for"
		if g.ACR != "" {
			says += " (" + g.ACR + ")"
		}
		return says, true, nil
	}
	return s.checked(func() (*audit.Signature, error) { return s.b.BreakGlassSignature(c.Request().Context(), g) }, "for just this: who, what for, why, how long and when")
}

func (s *Console) endGlass(c echo.Context, v *visit) error {
	id := c.Param("id")
	if _, err := s.b.EndBreakGlass(c.Request().Context(), v.Principal, id); err != nil {
		return err
	}
	return s.redirect(c, glassPath+"/"+id)
}

func (s *Console) reviewGlass(c echo.Context, v *visit) error {
	id, note := c.Param("id"), c.Request().PostForm.Get("note")
	_, err := s.b.ReviewBreakGlass(c.Request().Context(), v.Principal, id, note)
	if e := broker.AsError(err); e != nil && e.Kind == broker.Invalid {
		return s.drawGlass(c, http.StatusUnprocessableEntity, v, note, e.Public)
	}
	if err != nil {
		return err
	}
	return s.redirect(c, glassPath+"/"+id)
}
