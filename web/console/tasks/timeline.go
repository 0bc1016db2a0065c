package tasks

import (
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// Sizes of the timeline in SVG units.
const (
	lineWidth = 1000
	laneTop   = 34 // Y of the first lane, below the times
	laneStep  = 26 // distance between the three lanes of marks
	barTop    = laneTop + 3*laneStep + 8
	barStep   = 9
	barHigh   = 6
)

// timeline is a chart of a task: lanes with marks for the task, its sandbox and
// the decisions, and below them one bar for each credential. Its only text is
// times and fixed words.
type timeline struct {
	High   int
	Ticks  []tick
	Lanes  []lane
	Marks  []mark
	Bars   []bar
	Life   bar
	Now    int // X of the current time; 0 = not shown
	Cut    bool
	Issued int
	Asked  int
}

// lineView is a timeline with the view that formats its times.
type lineView struct {
	View shell.View
	Line timeline
}

type tick struct {
	X  int
	At time.Time
}

type lane struct {
	Y    int
	Name string
}

type mark struct {
	X, Y int
	Tone string
	What string // the kind, shown as a tooltip
}

type bar struct {
	X, Y, Wide, High int
	Tone             string
	What             string
}

// draw computes the timeline. All coordinates stay inside the chart.
func draw(t broker.Task, leases []broker.Lease, entries []audit.Entry, now time.Time) timeline {
	from, to := t.OpenedAt, t.ClosedAt
	if to.IsZero() {
		to = now
	}
	for _, e := range entries {
		if e.At.After(to) {
			to = e.At // entries written after the task was closed
		}
	}
	if !to.After(from.Add(time.Second)) {
		to = from.Add(time.Second)
	}
	x := func(at time.Time) int {
		return min(max(int(float64(at.Sub(from))/float64(to.Sub(from))*lineWidth), 0), lineWidth)
	}
	out := timeline{High: barTop + barStep*len(leases) + 10, Issued: len(leases)}
	for i := range 5 {
		at := from.Add(to.Sub(from) * time.Duration(i) / 4)
		out.Ticks = append(out.Ticks, tick{x(at), at})
	}
	for i, name := range []string{"task", "sandbox", "decisions"} {
		out.Lanes = append(out.Lanes, lane{laneTop + i*laneStep, name})
	}
	ended := t.ClosedAt
	if ended.IsZero() {
		ended = now
	}
	out.Life = bar{0, laneTop - 3, max(x(ended), 2), barHigh, "", "the task"}
	for _, e := range entries {
		row, tone := markOf(e.Kind)
		if row == 2 {
			out.Asked++
		}
		out.Marks = append(out.Marks, mark{x(e.At), laneTop + row*laneStep, tone, e.Kind})
	}
	for i, l := range leases {
		end, tone := l.ExpiresAt, list.Credential{Lease: l, Now: now}.Tone()
		if !l.RevokedAt.IsZero() {
			end = l.RevokedAt
		}
		if end.After(now) {
			end = now
		}
		start := x(l.IssuedAt)
		out.Bars = append(out.Bars, bar{start, barTop + i*barStep, max(x(end)-start, 3), barHigh, tone, list.Credential{Lease: l, Now: now}.Word()})
	}
	return out
}

// markOf returns the lane and the CSS class of an entry kind.
func markOf(kind string) (row int, tone string) {
	switch {
	case strings.HasPrefix(kind, "sandbox."):
		row = 1
	case strings.HasPrefix(kind, "request."), strings.HasPrefix(kind, "token."):
		row = 2
	}
	switch kind {
	case audit.RequestApproved, audit.SandboxEnrolled, audit.TaskOpened, audit.TaskResumed:
		tone = "good"
	case audit.RequestDenied, audit.TokenDenied, audit.SandboxRejected, audit.SandboxExited, audit.TaskTainted:
		tone = "bad"
	case audit.RequestCreated, audit.TaskPaused, audit.RequestExpired:
		tone = "warn"
	}
	return row, tone
}
