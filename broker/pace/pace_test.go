package pace_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/pace"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestBackoffGrowsBetweenItsBounds(t *testing.T) {
	t.Parallel()
	b := pace.Backoff{Min: time.Second, Max: 5 * time.Minute}
	for failures, top := range map[int]time.Duration{1: 2 * time.Second, 2: 4 * time.Second, 8: 256 * time.Second, 9: 5 * time.Minute, 1000: 5 * time.Minute} {
		if low, high := b.Wait(failures, 0), b.Wait(failures, 0.999999); low != time.Second || high > top || high < top-top/1000 {
			t.Errorf("after %d failures from %s to %s, want 1s to %s", failures, low, high, top)
		}
	}
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	b := pace.Breaker{Failures: 3, Backoff: pace.Backoff{Min: time.Second, Max: time.Minute}}
	now := epoch
	call := func(ok bool) {
		t.Helper()
		turn, granted := b.Try(now)
		if !granted {
			t.Fatalf("no call at %s", now.Sub(epoch))
		}
		turn.Done(ok, now, 0)
	}
	call(false)
	call(false)
	call(true) // not in a row
	call(false)
	call(false)
	late, _ := b.Try(now) // began before it opens
	later, _ := b.Try(now)
	latest, _ := b.Try(now)
	call(false)
	if _, granted := b.Try(now); b.State(now) != pace.Open || granted || b.Retry(now) != now.Add(time.Second) {
		t.Fatalf("after three in a row: %v, again at %s", b.State(now), b.Retry(now))
	}
	late.Done(false, now, 0.5) // and fails after it did: no news
	if b.Retry(now) != now.Add(time.Second) {
		t.Errorf("a call that ended late made the wait %s", b.Retry(now).Sub(now))
	}
	now = now.Add(time.Second)
	deciding, granted := b.Try(now)
	if !granted {
		t.Fatal("nobody may find out")
	}
	later.Done(false, now, 0.5) // still no news, while one finds out
	latest.Cancel()
	if _, granted := b.Try(now); granted || b.State(now) != pace.Open || !b.Retry(now).After(now) {
		t.Error("two find out at one time")
	}
	deciding.Done(false, now, 0.999999)
	if wait := b.Retry(now).Sub(now); wait < 3*time.Second || wait > 4*time.Second {
		t.Errorf("the second wait is %s", wait)
	}
	now = now.Add(time.Minute)
	call(true)
	if b.State(now) != pace.Closed || !b.Retry(now).IsZero() {
		t.Error("it answered, and is kept waiting")
	}
}

// A wait that a clock ahead has planned ends when the clock is back.
func TestBreakerClockSetBack(t *testing.T) {
	t.Parallel()
	b := pace.Breaker{Failures: 1, Backoff: pace.Backoff{Min: time.Second, Max: time.Minute}}
	ahead := epoch.Add(48 * time.Hour)
	turn, _ := b.Try(ahead)
	turn.Done(false, ahead, 0.9)
	if b.State(ahead) != pace.Open || b.State(epoch) != pace.HalfOpen || !b.Retry(epoch).IsZero() {
		t.Errorf("state %v, then %v, again at %s", b.State(ahead), b.State(epoch), b.Retry(epoch))
	}
	turn, _ = b.Try(epoch)
	turn.Done(false, epoch, 0.9)
	if b.State(epoch) != pace.Open {
		t.Errorf("after another failure: %v", b.State(epoch))
	}
}

// A call that was granted and not made is no news: neither does it hold up the next
// one, nor does it count as an answer.
func TestBreakerCancel(t *testing.T) {
	t.Parallel()
	b := pace.Breaker{Failures: 2, Backoff: pace.Backoff{Min: time.Second, Max: time.Minute}}
	try := func(now time.Time) pace.Turn {
		t.Helper()
		turn, granted := b.Try(now)
		if !granted {
			t.Fatal("nobody may find out")
		}
		return turn
	}
	try(epoch).Done(false, epoch, 0)
	try(epoch).Cancel()
	try(epoch).Done(false, epoch, 0)
	if b.State(epoch) != pace.Open {
		t.Fatal("a call that was not made broke a row of failures")
	}
	now := epoch.Add(time.Second)
	for range 3 {
		try(now).Cancel()
		if b.State(now) != pace.HalfOpen || !b.Retry(now).IsZero() {
			t.Errorf("state %v, again at %s", b.State(now), b.Retry(now))
		}
	}
}

func TestBreakerLetsOneFindOut(t *testing.T) {
	t.Parallel()
	b := pace.Breaker{Failures: 1, Backoff: pace.Backoff{Min: time.Second, Max: time.Minute}}
	first, _ := b.Try(epoch)
	first.Done(false, epoch, 0)
	var in atomic.Int32
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if _, granted := b.Try(epoch.Add(time.Minute)); granted {
				in.Add(1)
			}
		})
	}
	wg.Wait()
	if in.Load() != 1 {
		t.Errorf("%d calls were let through", in.Load())
	}
}

func enter(t *testing.T, g *pace.Gate, name string) func() {
	t.Helper()
	leave, err := g.Enter(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

func TestGateSharesItsPlaces(t *testing.T) {
	t.Parallel()
	g := pace.NewGate(4)
	first, _ := enter(t, g, "a"), enter(t, g, "a")
	over, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := g.Enter(over, "a"); !errors.Is(err, pace.ErrFull) {
		t.Fatalf("a third of one name: %v", err)
	}
	if g.TryEnter("a") != nil {
		t.Fatal("a third of one name entered at once")
	}
	leave := g.TryEnter("b")
	if leave == nil {
		t.Fatal("no slot for another name")
	}
	leave()
	enter(t, g, "b")
	enter(t, g, "c")
	in := make(chan func(), 1)
	go func() { // waits for a place
		leave, err := g.Enter(context.WithoutCancel(t.Context()), "d")
		if err == nil {
			in <- leave
		}
	}()
	gaveUp, stop := context.WithCancel(t.Context())
	stop()
	if _, err := g.Enter(gaveUp, "e"); !errors.Is(err, pace.ErrFull) {
		t.Errorf("who gave up got %v", err)
	}
	first()
	first() // leaving twice is leaving once
	select {
	case leave := <-in:
		leave()
	case <-time.After(2 * time.Minute):
		t.Fatal("a place is free and nobody gets it")
	}
	enter(t, g, "f")
	if _, err := g.Enter(gaveUp, "g"); !errors.Is(err, pace.ErrFull) {
		t.Errorf("a fifth at one time: %v", err)
	}
}

func TestGateNeverHoldsMoreThanItsPlaces(t *testing.T) {
	t.Parallel()
	g := pace.NewGate(3)
	var now, most, full atomic.Int32
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				leave, err := g.Enter(ctx, string(rune('a'+i%8)))
				cancel()
				if err != nil {
					full.Add(1)
					continue
				}
				for n := now.Add(1); ; {
					m := most.Load()
					if n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				now.Add(-1)
				leave()
			}
		})
	}
	wg.Wait()
	if most.Load() > 3 || now.Load() != 0 {
		t.Errorf("%d at one time, %d left", most.Load(), now.Load())
	}
	for _, name := range []string{"x", "y", "z"} {
		enter(t, g, name)
	}
}
