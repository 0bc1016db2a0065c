package verify_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/web/verify"
)

// proofOf returns a proof with the nonce of r.
func proofOf(r verify.Remembering, jkt, jti string, iat time.Time) dpop.Proof {
	return dpop.Proof{JKT: jkt, ReplayKey: jkt + jti, From: iat.Add(-time.Minute), Until: iat.Add(61 * time.Second), Nonce: r.Memory().Nonce}
}

func claim(t *testing.T, r verify.Replay, p dpop.Proof) string {
	t.Helper()
	first, err := r.Claim(t.Context(), p)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(first)
}

//ebb:invariant I10 The resource server's in-memory replay cache refuses every claim of a proof that may date from before its start, also without the caller's check
func TestReplay(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 500_000_000)
	now := start
	r := verify.NewReplay(0, func() time.Time { return now })
	p := proofOf(r, "k", "1", start.Truncate(time.Second))
	for i, want := range []string{"true", "false", "false"} {
		if got := claim(t, r, p); got != want {
			t.Errorf("claim %d: %s, want %s", i, got, want)
		}
	}
	for _, at := range []time.Duration{-2 * time.Second, 0, 60 * time.Second} {
		p := proofOf(r, "k", "2", start.Add(at))
		p.Nonce = ""
		if got := claim(t, r, p); got != "false" {
			t.Errorf("a proof that may be from before the start, made %v after it: %s", at, got)
		}
	}
	now = start.Add(60 * time.Second)
	if got := claim(t, r, p); got != "false" {
		t.Errorf("in its last second: %s", got)
	}
	// The clock jumps ahead, all slots are dropped, and it is set back.
	now = start.Add(time.Hour)
	if got := claim(t, r, proofOf(r, "k", "3", now)); got != "true" {
		t.Errorf("an hour later: %s", got)
	}
	now = start.Add(time.Second)
	if got := claim(t, r, p); got != "false" {
		t.Errorf("after the clock came back: %s", got)
	}
}

// H37: memory is limited, and one key cannot use all of it.
func TestReplayBounds(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	r := verify.NewReplay(100, func() time.Time { return now })
	for i := range 25 {
		if got := claim(t, r, proofOf(r, "greedy", fmt.Sprint(i), now.Add(time.Duration(i)*time.Second))); got != "true" {
			t.Fatalf("%d: %s", i, got)
		}
	}
	if got := claim(t, r, proofOf(r, "greedy", "more", now)); got != verify.ErrBusyKey.Error() {
		t.Errorf("greedy: %s", got)
	}
	for i := range 75 {
		if got := claim(t, r, proofOf(r, fmt.Sprint("k", i%4), fmt.Sprint(i), now)); got != "true" {
			t.Fatalf("%d: %s", i, got)
		}
	}
	if got := claim(t, r, proofOf(r, "another", "1", now)); got != verify.ErrFull.Error() {
		t.Errorf("full: %s", got)
	}
	if got := claim(t, r, proofOf(r, "greedy", "3", now.Add(3*time.Second))); got != "false" {
		t.Errorf("a replay while full: %s", got)
	}
	now = now.Add(3 * time.Minute)
	if got := claim(t, r, proofOf(r, "another", "1", now)); got != "true" {
		t.Errorf("after all is forgotten: %s", got)
	}
}

// I10: one winner of concurrent claims.
func TestReplayOneWinner(t *testing.T) {
	t.Parallel()
	r := verify.NewReplay(0, nil)
	p := proofOf(r, "k", "1", time.Now())
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

// An attacker who replays a token with the wrong key uses nothing up, and a
// failing replay store refuses requests.
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
