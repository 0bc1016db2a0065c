package report

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAnswerAge(t *testing.T) {
	t.Parallel()
	for span, want := range map[time.Duration]time.Duration{time.Minute: 15 * time.Second, 48 * time.Hour: 15 * time.Second, 48*time.Hour + 1: 5 * time.Minute, maxWindow: 5 * time.Minute} {
		if got := answerAge(span); got != want {
			t.Errorf("window %v: %v, want %v", span, got, want)
		}
	}
}

// TestAnswerCache: of concurrent callers one computes. An error is not cached, another key is
// another answer, and an answer of the largest age is computed again.
func TestAnswerCache(t *testing.T) {
	t.Parallel()
	var c answerCache[int32]
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	const age = 15 * time.Second
	var computed atomic.Int32
	compute := func() (int32, error) { return computed.Add(1), nil }
	if _, err := c.get(t.Context(), "a", now, age, func() (int32, error) { return 0, errors.New("down") }); err == nil {
		t.Fatal("an error was cached")
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if n, err := c.get(t.Context(), "a", now, age, compute); err != nil || n != 1 {
				t.Error(n, err)
			}
		})
	}
	wg.Wait()
	for i, step := range []struct {
		key string
		at  time.Time
		n   int32
	}{
		{"b", now, 2}, {"a", now.Add(age - 1), 1}, {"a", now.Add(age), 3}, {"b", now.Add(age), 4}, // both have the largest age
		{"a", now, 5}, // the clock went back
	} {
		if n, err := c.get(t.Context(), step.key, step.at, age, compute); err != nil || n != step.n {
			t.Errorf("%d: %d, %v; want %d", i, n, err, step.n)
		}
	}
	c.turn <- struct{}{} // another caller computes and does not finish
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(ctx, "a", now, age, compute); err == nil {
		t.Error("get did not stop waiting")
	}
}
