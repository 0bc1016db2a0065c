package console

import (
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
)

// emergencyPages serves break-glass.
type emergencyPages struct {
	b    *core.Broker
	keys *passkey.Keys
	mux  *web.Mux

	pages    *pages
	requests *requestPages
	visits   *visits
}

const glassPath = "/break-glass"

// glassRoutes are the pages and forms of break-glass.
func (ep *emergencyPages) glassRoutes() []route {
	return []route{
		ep.visits.page(glassPath, ep.glasses),
		ep.visits.form(glassPath, false, ep.beginGlass),
		ep.visits.page(glassPath+"/plan", ep.plan),
		ep.visits.form(glassPath+"/plan", false, ep.planGlass),
		ep.visits.page(glassPath+"/challenge", ep.challengeGlass),
		ep.visits.page(glassPath+"/again", ep.againForGlass),
		ep.visits.page(glassPath+"/:id", ep.glass),
		ep.visits.form(glassPath+"/:id/end", true, ep.endGlass),
		ep.visits.form(glassPath+"/:id/review", false, ep.reviewGlass),
	}
}

// glassRow is one break-glass period in a list or in the banner.
type glassRow struct {
	broker.BreakGlass
	Word, Tone string // its state
	Open       bool
}

func glassRowOf(g broker.BreakGlass, now time.Time) glassRow {
	row := glassRow{BreakGlass: g, Word: "review pending", Tone: "warn"}
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

// banner is shown on every page to every visitor. It lists people who may
// approve alone now, and periods without a review.
type banner struct {
	Rows   []glassRow // all open periods, then periods without a review; 3 rows at most unless more are open
	More   bool       // there are more periods than Rows
	Unread bool       // the periods could not be read; pages are still served, with a warning
}

// Says reports whether the banner is shown.
func (b banner) Says() bool { return b.Unread || len(b.Rows) > 0 }

func (ep *emergencyPages) banner(c echo.Context, v *visit) banner {
	gs, err := ep.b.BreakGlassNow(c.Request().Context(), v.Principal)
	if err != nil {
		web.EventOf(c).Cause = err
		return banner{Unread: true}
	}
	var out banner
	for _, g := range gs {
		out.Rows = append(out.Rows, glassRowOf(g, v.now))
	}
	slices.SortStableFunc(out.Rows, func(a, b glassRow) int { return rank(a) - rank(b) })
	open := 0
	for open < len(out.Rows) && out.Rows[open].Open {
		open++
	}
	if most := max(open, 3); len(out.Rows) > most {
		out.Rows, out.More = out.Rows[:most], true
	}
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

// glassPage is the list of break-glass periods and the form that starts one.
type glassPage struct {
	Rows             []glassRow
	Older            string // id after which there are more; "" = none
	All              bool   // the visitor may read all periods with their reasons
	May              bool
	Why              string // the reason when May is false
	Limits           approval.BreakGlassConfig
	Incident, Reason string
	Problem          string
}

const glassRows = 50

func (ep *emergencyPages) glasses(c echo.Context, v *visit) error {
	return ep.drawGlasses(c, http.StatusOK, v, glassPage{})
}

func (ep *emergencyPages) drawGlasses(c echo.Context, status int, v *visit, page glassPage) error {
	a := readAsked(c)
	f := broker.BreakGlassFilter{After: a.cursor("after"), Limit: glassRows + 1}
	if err := a.done(); err != nil {
		return err
	}
	gs, err := ep.b.BreakGlasses(c.Request().Context(), v.Principal, f)
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
	page.All, page.Limits = v.Has(broker.RoleAuditor, broker.RoleOperator), ep.b.BreakGlassConfig()
	if err := ep.b.MayBreakGlass(v.Principal); err != nil {
		page.Why = broker.AsError(err).Public
	} else {
		page.May = true
	}
	return ep.pages.draw(c, status, v, "breakglass", frame{Title: "Break-glass", Nav: glassPath}, page)
}
