package broker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ebb/broker"
)

// doubts is a Cutter that notes when it was told to cut everything.
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

// TestSilence: when the ledger or its feed says nothing, whether it fails or hangs, all
// that goes on is cut once Silence is over, and again after each further one; while both
// answer, and when they do again, nothing is.
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
	ended.Go(func() { broker.RunLedger(ctx, hookLedger{m, h}, d) })
	defer func() { stop(); ended.Wait() }()
	time.Sleep(20*broker.Silence + time.Millisecond) // so that nothing of what follows is at the same moment
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
	time.Sleep(3 * broker.Silence)
	at := d.take()
	if len(at) < 2 || at[0].Sub(silent) > broker.Silence || at[0].Sub(silent) < broker.Silence/2 {
		t.Fatalf("silent since %v, cut at %v", silent, at)
	}
	for i := range len(at) - 1 {
		if gap := at[i+1].Sub(at[i]); gap > broker.Silence {
			t.Errorf("cut %v after the last time", gap)
		}
	}
	h.on(op, nil)
	close(over)
	time.Sleep(2 * broker.Silence)
	d.take()
	time.Sleep(20 * broker.Silence)
	if at := d.take(); at != nil {
		t.Errorf("cut %d times since all answer again", len(at))
	}
}
