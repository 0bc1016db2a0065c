package console

import (
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

const glassPath = "/break-glass"

// glassRoutes are the pages and forms of it.
func (s *Console) glassRoutes() []route {
	return []route{
		s.page(glassPath, s.glasses),
		s.form(glassPath, false, s.beginGlass),
		s.page(glassPath+"/plan", s.plan),
		s.form(glassPath+"/plan", false, s.planGlass),
		s.page(glassPath+"/challenge", s.challengeGlass),
		s.page(glassPath+"/again", s.againForGlass),
		s.page(glassPath+"/:id", s.glass),
		s.form(glassPath+"/:id/end", true, s.endGlass),
		s.form(glassPath+"/:id/review", false, s.reviewGlass),
	}
}

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
// reviewed.
type banner struct {
	Rows   []glassRow // all that are open, and a few that wait for their review
	More   bool       // there are others
	Unread bool       // nobody knows: it keeps nobody from the page, and the page says it
}

// Says reports whether there is anything to say.
func (b banner) Says() bool { return b.Unread || len(b.Rows) > 0 }

func (s *Console) banner(c echo.Context, v *visit) banner {
	gs, err := s.b.BreakGlassNow(c.Request().Context(), v.Principal)
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
