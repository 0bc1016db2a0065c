package breakglass

import (
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

const glassPath = "/break-glass"

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

// Banner reads the periods that every page tells of.
func (ps *Pages) Banner(c echo.Context, v *session.Visit) shell.Banner {
	gs, err := ps.Broker.BreakGlassNow(c.Request().Context(), v.Principal)
	if err != nil {
		web.EventOf(c).Cause = err
		return banner{Unread: true}
	}
	var out banner
	for _, g := range gs {
		out.Rows = append(out.Rows, glassRowOf(g, v.Now))
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
	Have, Usable     bool   // the person has passkeys, and one that can start break-glass
	Limits           approval.BreakGlassConfig
	Incident, Reason string
	Problem          string
}

const glassRows = 50

func (ps *Pages) glasses(c echo.Context, v *session.Visit) error {
	return ps.drawGlasses(c, http.StatusOK, v, glassPage{})
}

func (ps *Pages) drawGlasses(c echo.Context, status int, v *session.Visit, page glassPage) error {
	a := list.ReadQuery(c)
	f := broker.BreakGlassFilter{After: a.Cursor("after"), Limit: glassRows + 1}
	if err := a.Done(); err != nil {
		return err
	}
	gs, err := ps.Broker.BreakGlasses(c.Request().Context(), v.Principal, f)
	if err != nil {
		return err
	}
	if len(gs) > glassRows {
		gs = gs[:glassRows]
		page.Older = gs[glassRows-1].ID
	}
	for _, g := range gs {
		page.Rows = append(page.Rows, glassRowOf(g, v.Now))
	}
	page.All, page.Limits = v.Has(broker.RoleAuditor, broker.RoleOperator), ps.Broker.BreakGlassConfig()
	if err := ps.Broker.MayBreakGlass(v.Principal); err != nil {
		page.Why = broker.AsError(err).Public
	} else {
		page.May = true
		// The notice is optional: an error must not prevent the start.
		if page.Have, page.Usable, err = ps.passkeys(c, v); err != nil {
			page.Usable = true
		}
	}
	return ps.Shell.Draw(c, status, v, "breakglass", shell.Frame{Title: "Break-glass", Nav: glassPath}, page)
}
