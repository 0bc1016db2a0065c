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
	labelHigh = 14 // of the label below a bar
)

// timeline is a chart of a task: lanes with marks for the task, its sandbox and the decisions, and
// below them one bar for each credential. Its only text is times, ids and fixed words.
type timeline struct {
	High   int
	Ticks  []tick
	Lanes  []lane
	Marks  []mark
	Bars   []bar
	Life   bar
	Cut    bool
	Issued int
	Stuck  []list.Credential // not confirmed dead by their providers
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
	Label            string // "" = none
	LabelX, LabelY   int
	Anchor           string // of the label: start or end
}

// draw computes the timeline. All coordinates stay inside the chart.
func draw(t broker.Task, leases []broker.Lease, entries []audit.Entry, now time.Time) timeline {
	ended := t.ClosedAt
	if ended.IsZero() {
		ended = now
	}
	times := []time.Time{t.OpenedAt, t.OpenedAt.Add(time.Second), ended}
	for _, e := range entries {
		times = append(times, e.At)
	}
	for _, l := range leases {
		times = append(times, l.IssuedAt, endOf(l, now))
	}
	scale := newScale(lineWidth, times...)
	out := timeline{Issued: len(leases)}
	for i := range 5 {
		x := i * lineWidth / 4
		out.Ticks = append(out.Ticks, tick{x, scale.time(float64(x))})
	}
	for i, name := range []string{"task", "sandbox", "decisions"} {
		out.Lanes = append(out.Lanes, lane{laneTop + i*laneStep, name})
	}
	opened := scale.x(t.OpenedAt)
	out.Life = bar{X: opened, Y: laneTop - 3, Wide: max(scale.x(ended)-opened, 2), High: barHigh, What: "the task"}
	for _, e := range entries {
		row, tone := markOf(e.Kind)
		out.Marks = append(out.Marks, mark{scale.x(e.At), laneTop + row*laneStep, tone, e.Kind})
	}
	y := barTop
	for _, l := range leases {
		c := list.Credential{Lease: l, Now: now}
		x := min(scale.x(l.IssuedAt), lineWidth-3)
		b := bar{X: x, Y: y, Wide: max(scale.x(endOf(l, now))-x, 3), High: barHigh, Tone: c.Tone(), What: c.Word()}
		y += barStep
		if b.Tone == "bad" {
			out.Stuck = append(out.Stuck, c)
			b.Label, b.LabelX, b.LabelY, b.Anchor = shell.ShortID(l.ID)+" "+c.Word(), x, y+labelHigh-5, "start"
			if x > lineWidth/2 {
				b.LabelX, b.Anchor = x+b.Wide, "end"
			}
			y += labelHigh
		}
		out.Bars = append(out.Bars, b)
	}
	out.High = y + 10
	return out
}

// endOf returns the end of the bar of a credential. A credential whose end at
// its provider is not confirmed has a bar until now.
func endOf(l broker.Lease, now time.Time) time.Time {
	end := l.ExpiresAt
	if !l.RevokedAt.IsZero() {
		end = l.RevokedAt
	}
	if end.After(now) || (list.Credential{Lease: l, Now: now}).Tone() == "bad" {
		return now
	}
	return end
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
