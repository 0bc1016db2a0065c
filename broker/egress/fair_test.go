package egress_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"ebb/broker"
	"ebb/broker/egress"
)

// slowEnds is a record on which ends of requests of one task take until they are let go.
type slowEnds struct {
	egress.Record
	task string
	let  chan struct{}
}

func (r *slowEnds) UseCompleted(ctx context.Context, c broker.Caller, leaseID string, x broker.Exchange) {
	if c.TaskID == r.task {
		<-r.let
	}
	r.Record.UseCompleted(ctx, c, leaseID, x)
}

// E110 and E111: a task whose requests do not end on the record is refused when it has as many of
// them as a task may have; others go on.
func TestOwedEndsOfATask(t *testing.T) {
	t.Parallel()
	const most = 512
	b := newBed(t, echo)
	x, other := b.box(t), b.box(t)
	ends := &slowEnds{Record: b.Broker, task: x.s.Task.ID, let: make(chan struct{})}
	release := sync.OnceFunc(func() { close(ends.let) })
	t.Cleanup(release)
	b.with(t, func(c *egress.Config) { c.Record = ends })
	greedy, quiet := b.boxOf(t, x.s), b.boxOf(t, other.s)
	p, c := x.placeholder(t, "stripe:charges:read"), greedy.client(t, true)
	for i := range most + 1 {
		res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p)
		if want := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[i < most]; res.StatusCode != want || i == most && !strings.Contains(body, "record_unavailable") {
			t.Fatalf("%d: %s %q", i, res.Status, body)
		}
	}
	theirs := other.placeholder(t, "stripe:charges:read")
	if res, body := send(t, quiet.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+theirs); res.StatusCode != http.StatusOK {
		t.Errorf("another task: %s %q", res.Status, body)
	}
	release()
	until(t, "its ends are on the record", func() bool {
		res, _ := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p)
		return res.StatusCode == http.StatusOK
	})
}
