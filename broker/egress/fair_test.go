package egress_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
)

// slowEnds is an audit log that delays the completion entries of one task.
type slowEnds struct {
	egress.Record
	task string
	let  chan struct{}
}

func (r *slowEnds) UseCompleted(ctx context.Context, ends ...broker.EndedExchange) {
	if slices.ContainsFunc(ends, func(x broker.EndedExchange) bool { return x.Caller.TaskID == r.task }) {
		<-r.let
	}
	r.Record.UseCompleted(ctx, ends...)
}

// E110 and E111: a task with the maximum number of requests without a completion entry is refused;
// other tasks are not.
//
//ebb:invariant I12 The number of egress requests of a task without a completion entry in the audit log is limited
func TestPendingEndsOfATask(t *testing.T) {
	t.Parallel()
	const most = 512
	b := newBed(t, echo)
	x, other := b.sandbox(t), b.sandbox(t)
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
	until(t, "its ends are in the audit log", func() bool {
		res, _ := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p)
		return res.StatusCode == http.StatusOK
	})
}
