package core_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
)

// doubts is a RevocationListener that counts the calls to disconnect everything.
type doubts struct {
	mu sync.Mutex
	at []time.Time
}

func (*doubts) End(string)                   {}
func (*doubts) MayHaveOpened(string, string) {}
func (*doubts) Pause(string)                 {}

func (d *doubts) Doubt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = append(d.at, time.Now())
}

func (d *doubts) take() []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.at
	d.at = nil
	return out
}

// TestSilence: when the LiveStore or its feed fails or hangs, everything in progress is
// disconnected after ConfirmTimeout, and again after each further ConfirmTimeout. While both answer, and when
// they do again, nothing is disconnected.
//
//ebb:invariant I6 If the live store stops answering, ebb closes all egress connections after a bounded time (`ConfirmTimeout`)
//ebb:invariant I6 If the revocation feed stops answering, ebb closes all egress connections after a bounded time (`ConfirmTimeout`)
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"Check", "Follow"} {
		for _, hangs := range []bool{false, true} {
			name := op + map[bool]string{false: " fails", true: " hangs"}[hangs]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { silence(t, op, hangs) })
			})
		}
	}
}

func silence(t *testing.T, op string, hangs bool) {
	m, h, d := &memory{now: time.Now}, &hooks{}, &doubts{}
	m.lose()
	if err := m.get().Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { core.RunLiveStore(ctx, hookLiveStore{m, h}, d) })
	defer func() { stop(); ended.Wait() }()
	time.Sleep(20*broker.ConfirmTimeout + time.Millisecond) // so that no later event is at the same time
	if at := d.take(); at != nil {
		t.Fatalf("cut %d times while all answer", len(at))
	}
	over := make(chan struct{})
	silent := time.Now()
	h.on(op, func() error {
		if hangs {
			<-over
		}
		return errDown
	})
	time.Sleep(3 * broker.ConfirmTimeout)
	at := d.take()
	if len(at) < 2 || at[0].Sub(silent) > broker.ConfirmTimeout || at[0].Sub(silent) < broker.ConfirmTimeout/2 {
		t.Fatalf("silent since %v, cut at %v", silent, at)
	}
	for i := range len(at) - 1 {
		if gap := at[i+1].Sub(at[i]); gap > broker.ConfirmTimeout {
			t.Errorf("cut %v after the last time", gap)
		}
	}
	h.on(op, nil)
	close(over)
	time.Sleep(2 * broker.ConfirmTimeout)
	d.take()
	time.Sleep(20 * broker.ConfirmTimeout)
	if at := d.take(); at != nil {
		t.Errorf("cut %d times since all answer again", len(at))
	}
}
