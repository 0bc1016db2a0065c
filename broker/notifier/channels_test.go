package notifier_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/notifier"
	"github.com/ebb-broker/ebb/broker/people"
)

// A flood of requests with many recipients is stored in small units, completely and
// within the limits.
//
//ebb:invariant I12 The number of people that a channel notifies of one event is limited
func TestManyAndToMany(t *testing.T) {
	t.Parallel()
	r := newRig(t, notifier.Route{Channels: []string{"mail", "ops"}})
	for i := range 210 {
		r.knows(fmt.Sprintf("person-%d", i), people.DefaultPreferences(), nil)
	}
	for range 3 {
		r.asks(highScope, "")
	}
	r.look()
	to := map[string]int{}
	for _, m := range r.mails.take() {
		to[m.Data.Subject]++
	}
	for id, n := range to {
		if n != 200 {
			t.Errorf("%s was told %d", id, n)
		}
	}
	count(t, r.ops.take(), 3)
	if len(to) != 3 {
		t.Errorf("%d requests were told", len(to))
	}
}

// A failing channel gets one attempt at a time, and finally all messages, with ids that
// it may have seen before. Another channel is not delayed.
func TestAChannelThatFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, notifier.Route{Channels: []string{"ops", "leads"}})
	r.ops.status.Store(500)
	for range 4 {
		r.asks(highScope, "")
	}
	r.look()
	count(t, r.leads.take(), 4)
	tried := r.ops.take()
	if len(tried) != 3 {
		t.Errorf("%d attempts, want 3: then it rests", len(tried))
	}
	ids := map[string]bool{}
	for _, m := range tried {
		ids[m.ID] = true
	}
	r.ops.status.Store(0)
	got := map[string]bool{}
	for range 20 {
		r.turn(30 * time.Second)
		for _, m := range r.ops.take() {
			if got[m.ID] {
				t.Errorf("%s came twice after it was taken", m.ID)
			}
			got[m.ID] = true
			delete(ids, m.ID)
		}
	}
	if len(got) != 4 || len(ids) != 0 {
		t.Errorf("%d came, with other ids than before: %v", len(got), ids)
	}
}

// A message that is not accepted before its request ends is given up.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ops.status.Store(500)
	r.asks(highScope, "")
	attempts := 0
	for range 100 {
		r.turn(time.Minute)
		attempts += len(r.ops.take())
	}
	if b, err := r.Store.Backlogs(t.Context(), r.Clock.Now().Add(24*time.Hour)); err != nil || len(b) != 0 || attempts < 4 || attempts > 30 {
		t.Errorf("%d attempts; left: %v, %v", attempts, b, err)
	}
}

// A channel whose receiver answers 410 stops; after 429 it waits for the given time.
func TestGoneAndBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ops.status.Store(http.StatusGone)
	r.asks(highScope, "")
	r.look()
	count(t, r.ops.take(), 1)
	r.asks(highScope, "")
	r.turn(10 * time.Minute)
	count(t, r.ops.take(), 0)

	b := newRig(t)
	b.ops.status.Store(http.StatusTooManyRequests)
	b.asks(highScope, "")
	b.asks(highScope, "")
	b.look()
	count(t, b.ops.take(), 1) // the other message waits, too
	b.turn(50 * time.Second)
	count(t, b.ops.take(), 0)
	b.ops.status.Store(0)
	b.turn(30 * time.Second)
	b.turn(30 * time.Second)
	count(t, b.ops.take(), 2)
}

// Replicas that read the same audit log send each message once.
//
//ebb:invariant I10 Only one replica at a time sends a given notification
func TestReplicas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 4 {
		r.asks(highScope, "")
	}
	var all sync.WaitGroup
	for range 4 {
		n := r.another()
		all.Go(func() {
			if err := n.Follow(t.Context()); err != nil {
				t.Error(err)
			}
			if err := n.Deliver(t.Context(), "ops"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	r.look()
	seen := map[string]int{}
	for _, m := range r.ops.take() {
		if seen[m.Data.Subject]++; seen[m.Data.Subject] > 1 {
			t.Errorf("%s was told twice", m.Data.Subject)
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d were told", len(seen))
	}
}
