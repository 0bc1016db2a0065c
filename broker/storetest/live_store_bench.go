package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/broker"
)

// benchClients is the number of concurrent callers, as in reference runs.
const benchClients = 16

// BenchLiveStore measures the calls of the hot path with 16 callers, with the CPU time of
// this process for each call ("cpu-us/op": the client's cost, without the server), and
// the close of a task with an increasing number of leases.
func BenchLiveStore(b *testing.B, empty func(b *testing.B) broker.LiveStore) {
	ctx := b.Context()
	open := func(b *testing.B) broker.LiveStore { // marked, as a broker does before its first call
		b.Helper()
		l := empty(b)
		if err := l.Mark(ctx); err != nil {
			b.Fatal(err)
		}
		return l
	}
	b.Run("Admit", func(b *testing.B) {
		l, ids := benchTasks(b, open)
		until := time.Now().Add(time.Minute)
		benchParallel(b, func(n int64) error {
			id := ids[n%int64(len(ids))]
			_, err := l.Admit(ctx, broker.Admission{
				TaskID: id,
				Claims: []broker.Claim{{Key: fmt.Sprintf("dpop:%064x", n), Value: "1", Until: until}},
				Rates:  []broker.Rate{{Key: "task:" + id, Limit: 1e6, Per: time.Second}, {Key: "owner:" + id, Limit: 1e6, Per: time.Second}},
			})
			return err
		})
	})
	b.Run("Admit/task only", func(b *testing.B) {
		l, ids := benchTasks(b, open)
		benchParallel(b, func(n int64) error {
			_, err := l.Admit(ctx, broker.Admission{TaskID: ids[n%int64(len(ids))]})
			return err
		})
	})
	b.Run("PutLease", func(b *testing.B) {
		l, ids := benchTasks(b, open)
		exp := time.Now().Add(time.Hour)
		benchParallel(b, func(n int64) error {
			return l.PutLease(ctx, broker.LiveLease{ID: fmt.Sprintf("lse_%032x", n), TaskID: ids[n%int64(len(ids))], ExpiresAt: exp}, broker.LeaseLimits{Task: 1e9}, false)
		})
	})
	b.Run("Status", func(b *testing.B) {
		l, ids := benchTasks(b, open)
		benchFill(b, l, ids[0], 1000)
		now := time.Now()
		benchParallel(b, func(n int64) error {
			alive, err := l.Status(ctx, ids[0], fmt.Sprintf("lse_%032x", n%1000), now)
			if err == nil && !alive {
				err = fmt.Errorf("lease %d is dead", n)
			}
			return err
		})
	})
	for _, n := range []int{10, 1_000, 100_000} {
		b.Run(fmt.Sprintf("SetState/closed/%d", n), func(b *testing.B) { benchClose(b, open(b), n) })
	}
}

func benchTasks(b *testing.B, open func(b *testing.B) broker.LiveStore) (broker.LiveStore, []string) {
	b.Helper()
	l := open(b)
	var ids []string
	for i := range 64 {
		t := liveTask(fmt.Sprintf("tsk_%032x", i), time.Now())
		t.Sandbox = sandbox(i, time.Now())
		if err := l.PutTask(b.Context(), t, time.Now().Add(time.Hour)); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, t.ID)
	}
	return l, ids
}

// benchFill puts n leases concurrently.
func benchFill(b *testing.B, l broker.LiveStore, task string, n int) {
	b.Helper()
	exp := time.Now().Add(time.Hour)
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(64)
	for i := range n {
		g.Go(func() error {
			return l.PutLease(ctx, broker.LiveLease{ID: fmt.Sprintf("lse_%032x", i), TaskID: task, ExpiresAt: exp}, broker.LeaseLimits{}, true)
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

func benchParallel(b *testing.B, do func(n int64) error) {
	b.Helper()
	var next atomic.Int64
	g, _ := errgroup.WithContext(context.Background())
	cpu := cpuTime()
	b.ResetTimer()
	for range benchClients {
		g.Go(func() error {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return nil
				}
				if err := do(n); err != nil {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-us/op")
}

// benchClose fills a task, closes it, and checks that its last lease is refused. Filling
// takes far longer than closing, so the reported time per operation is the median of the
// closes only.
func benchClose(b *testing.B, l broker.LiveStore, n int) {
	b.Helper()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		t := liveTask(fmt.Sprintf("tsk_%016x%016x", n, i), time.Now())
		if err := l.PutTask(b.Context(), t, time.Now().Add(time.Hour)); err != nil {
			b.Fatal(err)
		}
		benchFill(b, l, t.ID, n)
		began := time.Now()
		c, _, err := l.SetState(b.Context(), t.ID, broker.TaskClosed, time.Now(), time.Now().Add(time.Minute))
		if err != nil || c.Live != n {
			b.Fatalf("closing: %+v, %v", c, err)
		}
		if alive, err := l.Status(b.Context(), t.ID, fmt.Sprintf("lse_%032x", n-1), time.Now()); alive || err != nil {
			b.Fatalf("alive after the end: %t, %v", alive, err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "ns/op")
	b.ReportMetric(float64(took[len(took)-1]), "max-ns/op")
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
