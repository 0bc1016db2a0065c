package tasks

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// TestTimelineZoom: events seconds apart do not overlap although an hour without
// events follows, nothing leaves the chart, and the times at the grid ascend.
func TestTimelineZoom(t *testing.T) {
	t.Parallel()
	opened := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	now := opened.Add(90 * time.Minute)
	var entries []audit.Entry
	for i := range 10 {
		entries = append(entries, audit.Entry{Kind: audit.RequestCreated, At: opened.Add(time.Duration(2*i) * time.Second)})
	}
	stuck := broker.Lease{ID: "lse_" + strings.Repeat("a", 32), IssuedAt: opened.Add(time.Second), RevokedAt: opened.Add(time.Minute), ExpiresAt: opened.Add(time.Hour), State: broker.LeaseRevoking, Upstream: &broker.Upstream{Attempts: 7}}
	dead := stuck
	dead.State, dead.Upstream = broker.LeaseRevoked, nil
	line := draw(broker.Task{OpenedAt: opened, Deadline: now}, []broker.Lease{stuck, dead}, entries, now)
	for i, m := range line.Marks {
		if i > 0 && m.X-line.Marks[i-1].X < 10 {
			t.Errorf("mark %d is at %d, mark %d at %d", i-1, line.Marks[i-1].X, i, m.X)
		}
	}
	for _, b := range line.Bars {
		if b.X < 0 || b.Wide < 3 || b.X+b.Wide > lineWidth || b.Y+b.High > line.High || b.LabelY > line.High {
			t.Errorf("%+v leaves the chart", b)
		}
	}
	for i, k := range line.Ticks[1:] {
		if !k.At.After(line.Ticks[i].At) {
			t.Errorf("the time at %d is %v", k.X, k.At)
		}
	}
	if first, last := line.Ticks[0].At, line.Ticks[4].At; !first.Equal(opened) || !last.Equal(now) {
		t.Errorf("from %v to %v", first, last)
	}
	if b := line.Bars[0]; len(line.Stuck) != 1 || b.Label != "lse_aaaa…aaaaa UNSURE" || b.X+b.Wide != lineWidth {
		t.Errorf("the stuck credential: %+v", b)
	}
	if b := line.Bars[1]; b.Label != "" || b.X+b.Wide > lineWidth/2+lineWidth/4 {
		t.Errorf("the dead credential: %+v", b)
	}
}

// TestTimelineOfNothing: a task without events and without a duration is drawn.
func TestTimelineOfNothing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	if line := draw(broker.Task{OpenedAt: now}, nil, nil, now); line.Life.Wide < 2 || line.Life.X != 0 || len(line.Ticks) != 5 {
		t.Errorf("%+v", line)
	}
}
