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

// TestInsightsCache: however many ask at once, one of them computes; an error is not kept,
// and another window is another answer.
func TestInsightsCache(t *testing.T) {
	t.Parallel()
	var c insightsCache
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	var computed atomic.Int32
	compute := func(_ context.Context, f FigureFilter) (Insights, error) {
		computed.Add(1)
		return Insights{At: f.Now, Figures: Figures{From: f.From, Cell: f.Cell}}, nil
	}
	f := FigureFilter{From: now.Add(-time.Hour), To: now, Now: now, Cell: time.Hour}
	if _, err := c.get(t.Context(), f, func(context.Context, FigureFilter) (Insights, error) { return Insights{}, errors.New("down") }); err == nil {
		t.Fatal("an error was answered")
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := c.get(t.Context(), f, compute); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := computed.Load(); n != 1 {
		t.Errorf("computed %d times", n)
	}
	other := f
	other.To = now.Add(-time.Minute)
	later := f
	later.To, later.Now = now.Add(15*time.Second), now.Add(15*time.Second)
	for i, f := range []FigureFilter{other, later} {
		if _, err := c.get(t.Context(), f, compute); err != nil || int(computed.Load()) != i+2 {
			t.Errorf("%d: computed %d times, %v", i, computed.Load(), err)
		}
	}
	c.turn <- struct{}{} // somebody computes, and goes on
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(ctx, f, compute); err == nil {
		t.Error("it did not stop waiting")
	}
}
