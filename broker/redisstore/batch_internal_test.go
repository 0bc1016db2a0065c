package redisstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// gate is a server that answers one batch for each permission.
type gate struct {
	asked  chan int // the size of each batch that came
	permit chan error
}

func (g gate) exec(_ context.Context, cmds []redis.Cmder) {
	g.asked <- len(cmds)
	if err := <-g.permit; err != nil {
		panic(err)
	}
}

func newGate(limit time.Duration) (gate, *batcher) {
	g := gate{make(chan int, 100), make(chan error)}
	return g, &batcher{exec: g.exec, limit: limit}
}

func one() []redis.Cmder { return []redis.Cmder{redis.NewIntCmd(context.Background(), "ping")} }

// waiting polls until n calls wait in the queue.
func waiting(t *testing.T, b *batcher, n int) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		b.mu.Lock()
		got := len(b.queue)
		b.mu.Unlock()
		if got == n {
			return
		}
	}
	t.Fatalf("%d calls do not get into the queue", n)
}

// Calls that come while a batch is being sent share the next batch, and the first call
// does not wait for others.
func TestBatches(t *testing.T) {
	t.Parallel()
	g, b := newGate(time.Minute)
	first := make(chan error, 1)
	go func() { first <- b.do(t.Context(), one()) }()
	if n := <-g.asked; n != 1 {
		t.Fatalf("the first batch has %d calls", n)
	}
	var others sync.WaitGroup
	for range 5 {
		others.Go(func() {
			if err := b.do(t.Context(), one()); err != nil {
				t.Error(err)
			}
		})
	}
	waiting(t, b, 5)
	g.permit <- nil
	if err := <-first; err != nil {
		t.Error(err)
	}
	if n := <-g.asked; n != 5 {
		t.Errorf("the second batch has %d calls, want the 5 that waited", n)
	}
	g.permit <- nil
	others.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running || b.queue != nil {
		t.Error("nothing is left to do, and something runs")
	}
}

// A server that does not answer does not delay a caller beyond its deadline.
func TestBatcherIsInAHurry(t *testing.T) {
	t.Parallel()
	g, b := newGate(time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := b.do(ctx, one()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	<-g.asked
	g.permit <- nil
}

// A panic in the client is an error, not an answer. Calls that waited behind it, and
// later calls, are still sent: by the caller itself, or by another goroutine for callers
// with a deadline.
func TestBatcherSurvivesPanic(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"the caller sends": time.Minute, "another sends": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, b := newGate(limit)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
			defer cancel()
			call := func() chan error {
				out := make(chan error, 1)
				go func() {
					err := errors.New("the caller panicked")
					defer func() {
						_ = recover()
						out <- err
					}()
					err = b.do(ctx, one())
				}()
				return out
			}
			answer := func(c chan error) error {
				t.Helper()
				select {
				case err := <-c:
					return err
				case <-time.After(2 * time.Minute):
					t.Fatal("no answer")
				}
				return nil
			}
			sent := func(answer error) {
				t.Helper()
				select {
				case <-g.asked:
					g.permit <- answer
				case <-time.After(2 * time.Minute):
					t.Fatal("nothing is sent")
				}
			}
			first := call()
			<-g.asked
			behind := call()
			waiting(t, b, 1)
			g.permit <- errors.New("boom")
			if err := answer(first); !errors.Is(err, errLost) {
				t.Errorf("the panic is answered with %v", err)
			}
			sent(nil)
			if err := answer(behind); err != nil {
				t.Error(err)
			}
			later := call()
			sent(nil)
			if err := answer(later); err != nil {
				t.Error(err)
			}
		})
	}
}
