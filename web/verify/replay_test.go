package verify_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ebb/attest/dpop"
	"ebb/web/verify"
)

func proofOf(jkt, jti string, iat time.Time) dpop.Proof {
	return dpop.Proof{JKT: jkt, ReplayKey: jkt + jti, IAT: iat, Until: iat.Add(61 * time.Second)}
}

func claim(t *testing.T, r verify.Replay, p dpop.Proof) string {
	t.Helper()
	first, err := r.Claim(t.Context(), p)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(first)
}

func TestReplay(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 500_000_000)
	now := start
	r := verify.NewReplay(0, func() time.Time { return now })
	p := proofOf("k", "1", start.Truncate(time.Second))
	for i, want := range []string{"true", "false", "false"} {
		if got := claim(t, r, p); got != want {
			t.Errorf("claim %d: %s, want %s", i, got, want)
		}
	}
	if got := claim(t, r, proofOf("k", "2", start.Add(-2*time.Second))); got != "false" {
		t.Errorf("a proof from before the start: %s", got)
	}
	now = start.Add(60 * time.Second)
	if got := claim(t, r, p); got != "false" {
		t.Errorf("in its last second: %s", got)
	}
	// The clock runs ahead, everything is dropped, and it comes back.
	now = start.Add(time.Hour)
	if got := claim(t, r, proofOf("k", "3", now)); got != "true" {
		t.Errorf("an hour later: %s", got)
	}
	now = start.Add(time.Second)
	if got := claim(t, r, p); got != "false" {
		t.Errorf("after the clock came back: %s", got)
	}
}

// H37: memory is bounded, and one key cannot take all of it.
func TestReplayBounds(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	r := verify.NewReplay(100, func() time.Time { return now })
	for i := range 25 {
		if got := claim(t, r, proofOf("greedy", fmt.Sprint(i), now.Add(time.Duration(i)*time.Second))); got != "true" {
			t.Fatalf("%d: %s", i, got)
		}
	}
	if got := claim(t, r, proofOf("greedy", "more", now)); got != verify.ErrBusyKey.Error() {
		t.Errorf("greedy: %s", got)
	}
	for i := range 75 {
		if got := claim(t, r, proofOf(fmt.Sprint("k", i%4), fmt.Sprint(i), now)); got != "true" {
			t.Fatalf("%d: %s", i, got)
		}
	}
	if got := claim(t, r, proofOf("another", "1", now)); got != verify.ErrFull.Error() {
		t.Errorf("full: %s", got)
	}
	if got := claim(t, r, proofOf("greedy", "3", now.Add(3*time.Second))); got != "false" {
		t.Errorf("a replay while full: %s", got)
	}
	now = now.Add(3 * time.Minute)
	if got := claim(t, r, proofOf("another", "1", now)); got != "true" {
		t.Errorf("after all is forgotten: %s", got)
	}
}

// I10: one winner.
func TestReplayOneWinner(t *testing.T) {
	t.Parallel()
	r := verify.NewReplay(0, nil)
	p := proofOf("k", "1", time.Now())
	var won atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if first, err := r.Claim(t.Context(), p); err == nil && first {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d winners", won.Load())
	}
}

// A thief who replays a token with the wrong key uses nothing up, and a replay
// store that cannot answer fails closed.
func TestReplayTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	cfg := w.config()
	cfg.Replay = replayFunc(func(dpop.Proof) (bool, error) { return false, errors.New("redis is down") })
	v := w.running(cfg)
	if _, err := v.Verify(w.request(w.token(nil))); fault(err) != "503" {
		t.Errorf("store down: %v", err)
	}
	cfg.Replay = replayFunc(func(dpop.Proof) (bool, error) { return false, verify.ErrBusyKey })
	v = w.running(cfg)
	if _, err := v.Verify(w.request(w.token(nil))); fault(err) != "429" {
		t.Errorf("busy key: %v", err)
	}
	claims := 0
	cfg.Replay = replayFunc(func(dpop.Proof) (bool, error) { claims++; return true, nil })
	v = w.running(cfg)
	if _, err := v.Verify(w.request(w.token(with("cnf", map[string]any{"jkt": thumb(t, p256(t))})))); fault(err) != "401 invalid_token" || claims != 0 {
		t.Errorf("stolen token: %v after %d claims", err, claims)
	}
}

type replayFunc func(dpop.Proof) (bool, error)

func (f replayFunc) Claim(_ context.Context, p dpop.Proof) (bool, error) { return f(p) }
