package auditlog

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

type entryPage struct {
	audit.Entry
	Canonical string // canonical JSON in ASCII
	Data      string // the data as indented JSON in ASCII
	Sums      bool   // the stored hash is the hash of its content
	Previous  int64
	About     []list.About
}

// entry shows one audit entry, byte for byte.
func (ps *Pages) entry(c echo.Context, v *session.Visit) error {
	seq, err := strconv.ParseInt(c.Param("seq"), 10, 64)
	if err != nil {
		return broker.E(broker.NotFound, "There is no such entry.", err)
	}
	e, err := ps.Broker.Entry(c.Request().Context(), v.Principal, c.Param("writer"), seq)
	if err != nil {
		return err
	}
	page := entryPage{Entry: e, Sums: audit.Sum(e) == e.Hash, Previous: e.Seq - 1}
	var b bytes.Buffer
	if err := list.WriteASCII(&b, e); err != nil {
		return err
	}
	page.Canonical = b.String()
	if len(e.Data) > 0 {
		b.Reset()
		var indented bytes.Buffer
		if err := list.WriteASCII(&b, e.Data); err != nil {
			return err
		}
		if err := json.Indent(&indented, b.Bytes(), "", "  "); err != nil {
			return err
		}
		page.Data = indented.String()
	}
	names, err := ps.Entries.Names(c.Request().Context(), v.Principal, []audit.Entry{e})
	if err != nil {
		return err
	}
	page.About = ps.Entries.About(ps.Shell.View(c, v, shell.Frame{}, nil), e, names)
	return ps.Shell.Draw(c, http.StatusOK, v, "entry", shell.Frame{Title: "Audit entry", Nav: "/audit"}, page)
}

// shownHeads and shownPoints limit the lists on the page of the chains.
// checkLast is the number of newest entries that a check reads.
const (
	shownHeads  = 20
	shownPoints = 10
	checkLast   = 1000
)

type chainsPage struct {
	Heads  []audit.Entry // the newest first
	Runs   int
	Points []point
	Signed int // number of all checkpoints
	Check  *report.Checked
	Last   int
}

// point is a checkpoint with the number of chains that it covers.
type point struct {
	audit.Checkpoint
	Chains int
}

// chains shows the heads of the chains and the checkpoints. With check it also
// verifies the newest entries.
func (ps *Pages) chains(check bool) func(echo.Context, *session.Visit) error {
	return func(c echo.Context, v *session.Visit) error {
		ctx := c.Request().Context()
		page := chainsPage{Last: checkLast}
		if check {
			done, err := ps.Broker.CheckRecord(ctx, v.Principal, checkLast)
			if err != nil {
				return err
			}
			page.Check = &done
		}
		heads, err := ps.Broker.Heads(ctx, v.Principal)
		if err != nil {
			return err
		}
		points, err := ps.Broker.Checkpoints(ctx, v.Principal)
		if err != nil {
			return err
		}
		page.Runs, page.Signed = len(heads), len(points)
		page.Heads = slices.Clone(heads[max(0, len(heads)-shownHeads):])
		slices.Reverse(page.Heads)
		for _, p := range slices.Backward(points[max(0, len(points)-shownPoints):]) {
			page.Points = append(page.Points, point{Checkpoint: p, Chains: len(p.Heads)})
		}
		return ps.Shell.Draw(c, http.StatusOK, v, "chains", shell.Frame{Title: "Chains of the audit log", Nav: "/audit"}, page)
	}
}
