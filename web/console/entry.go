package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/audit"
)

type entryPage struct {
	audit.Entry
	Canonical string // in ASCII
	Data      string // the same of its data, indented
	Sums      bool   // its content has the hash that it claims
	Previous  int64
	About     []about
}

// entry shows one entry of the record, to the byte.
func (s *Console) entry(c echo.Context, v *visit) error {
	seq, err := strconv.ParseInt(c.Param("seq"), 10, 64)
	if err != nil {
		return broker.E(broker.NotFound, "There is no such entry.", err)
	}
	e, err := s.b.Entry(c.Request().Context(), v.Principal, c.Param("writer"), seq)
	if err != nil {
		return err
	}
	page := entryPage{Entry: e, Sums: audit.Sum(e) == e.Hash, Previous: e.Seq - 1}
	var b bytes.Buffer
	if err := writeASCII(&b, e); err != nil {
		return err
	}
	page.Canonical = b.String()
	if len(e.Data) > 0 {
		b.Reset()
		var indented bytes.Buffer
		if err := writeASCII(&b, e.Data); err != nil {
			return err
		}
		if err := json.Indent(&indented, b.Bytes(), "", "  "); err != nil {
			return err
		}
		page.Data = indented.String()
	}
	page.About = aboutOf(s.view(c, v, frame{}, nil), e)
	return s.draw(c, http.StatusOK, v, "entry", frame{Title: "Entry of the record", Nav: "/audit"}, page)
}

// shownHeads and shownPoints bound what the page of the chains lists.
const (
	shownHeads  = 20
	shownPoints = 10
	checkLast   = 1000
)

type chainsPage struct {
	Heads  []audit.Entry // the newest first
	Runs   int
	Points []point
	Signed int // checkpoints in all
	Check  *broker.Checked
	Last   int
}

// point is a checkpoint with how many chains it vouches for.
type point struct {
	audit.Checkpoint
	Chains int
}

// chains shows where the record stands, and with check whether its end holds together.
func (s *Console) chains(check bool) func(echo.Context, *visit) error {
	return func(c echo.Context, v *visit) error {
		ctx := c.Request().Context()
		page := chainsPage{Last: checkLast}
		if check {
			done, err := s.b.CheckRecord(ctx, v.Principal, checkLast)
			if err != nil {
				return err
			}
			page.Check = &done
		}
		heads, err := s.b.Heads(ctx, v.Principal)
		if err != nil {
			return err
		}
		points, err := s.b.Checkpoints(ctx, v.Principal)
		if err != nil {
			return err
		}
		page.Runs, page.Signed = len(heads), len(points)
		page.Heads = slices.Clone(heads[max(0, len(heads)-shownHeads):])
		slices.Reverse(page.Heads)
		for _, p := range slices.Backward(points[max(0, len(points)-shownPoints):]) {
			page.Points = append(page.Points, point{Checkpoint: p, Chains: len(p.Heads)})
		}
		return s.draw(c, http.StatusOK, v, "chains", frame{Title: "Chains of the record", Nav: "/audit"}, page)
	}
}
