package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAnswers: sums over random answers are what counting each number says.
func TestAnswers(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	for n := range 130 {
		var ds []Decision
		var yes, hurried, lastYes int
		bias := rnd.IntN(101)
		for i := range n {
			d := Decision{Approve: rnd.IntN(100) < bias, Took: time.Duration(rnd.IntN(9000)) * time.Millisecond}
			ds = append(ds, d)
			if d.Approve {
				yes++
				if i < 50 && n >= 50 {
					lastYes++
				}
			}
			if d.Took < 3*time.Second {
				hurried++
			}
		}
		a := answersOf("x", ds)
		if a.Yes != yes || a.No != n-yes || a.Hurried != hurried || a.LastYes != lastYes || a.N() != n || a.Habit() != (lastYes >= 48) {
			t.Fatalf("of %d: %+v; want %d yes, %d hurried, %d of the last", n, a, yes, hurried, lastYes)
		}
		for percent, got := range map[int]time.Duration{50: a.Median, 90: a.P90} {
			atMost, below := 0, 0
			for _, d := range ds {
				if d.Took <= got {
					atMost++
				}
				if d.Took < got {
					below++
				}
			}
			if n > 0 && (atMost*100 < n*percent || below*100 >= n*percent) {
				t.Fatalf("of %d: %d %% is %v: %d at most that, %d below", n, percent, got, atMost, below)
			}
		}
	}
}

// TestAnswerCache: however many ask at once, one of them computes; an error is not kept,
// another key is another answer, and what is as old as it may be is computed anew.
func TestAnswerCache(t *testing.T) {
	t.Parallel()
	var c answerCache[int32]
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	const age = 15 * time.Second
	var computed atomic.Int32
	compute := func() (int32, error) { return computed.Add(1), nil }
	if _, err := c.get(t.Context(), "a", now, age, func() (int32, error) { return 0, errors.New("down") }); err == nil {
		t.Fatal("an error was answered")
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
		{"b", now, 2}, {"a", now.Add(age - 1), 1}, {"a", now.Add(age), 3}, {"b", now.Add(age), 4}, // as old as they may be
		{"a", now, 5}, // the clock went back
	} {
		if n, err := c.get(t.Context(), step.key, step.at, age, compute); err != nil || n != step.n {
			t.Errorf("%d: %d, %v; want %d", i, n, err, step.n)
		}
	}
	c.turn <- struct{}{} // somebody computes, and goes on
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(ctx, "a", now, age, compute); err == nil {
		t.Error("it did not stop waiting")
	}
}
