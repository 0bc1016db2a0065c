package sqlstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// together runs f for each of n numbers in 64 goroutines.
func together(b testing.TB, n int, f func(i int) error) {
	var wg sync.WaitGroup
	const workers = 64
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				if err := f(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// queue makes n leases of some tasks whose revocations are due.
func queue(b *testing.B, s *sqlstore.Store, tasks, n int) (now time.Time) {
	ids := make([]string, tasks)
	for i := range ids {
		task := storetest.Task()
		ids[i] = task.ID
		if err := s.Append(b.Context(), broker.Record{OpenTask: &task}); err != nil {
			b.Fatal(err)
		}
	}
	together(b, n, func(i int) error {
		l := storetest.Intent(ids[i%tasks])
		return s.Append(b.Context(), broker.Record{IssueLease: &l})
	})
	for _, id := range ids {
		if err := s.Append(b.Context(), broker.Record{MoveTask: closing(id)}); err != nil {
			b.Fatal(err)
		}
	}
	return storetest.Epoch.Add(time.Hour)
}

// BenchmarkRevocationQueue drains the revocation queue as the broker does: it claims batches of 64
// and settles the leases of a batch concurrently, each with an entry. The sizes show the
// cost of the turns when many leases are due.
func BenchmarkRevocationQueue(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		for _, n := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", engine, n), func(b *testing.B) {
				var taking time.Duration
				for b.Loop() {
					b.StopTimer()
					s := open(b, databases()[engine](b))
					now := queue(b, s, 10, n)
					b.StartTimer()
					for settled := 0; settled < n; {
						begun := time.Now()
						got, err := s.Take(b.Context(), "cloud", now, now.Add(time.Minute), 64)
						taking += time.Since(begun)
						if err != nil || len(got) == 0 {
							b.Fatalf("%d settled, then got %d, %v", settled, len(got), err)
						}
						together(b, len(got), func(i int) error {
							m := broker.LeaseMove{ID: got[i].ID, Fence: got[i].Fence, State: broker.LeaseRevoked, At: now, By: "ebb",
								Upstream: broker.Upstream{AcceptedAt: now, DeadAt: now, Proof: broker.ProofConfirmed, Attempts: 1}}
							e := audit.Entry{At: now, Kind: audit.LeaseRevoked, Actor: "ebb", TaskID: got[i].TaskID, LeaseID: got[i].ID}
							return s.Append(b.Context(), broker.Record{SettleLease: &m, Entries: []audit.Entry{e}})
						})
						settled += len(got)
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "leases/s")
				b.ReportMetric(float64(taking.Microseconds())/float64(b.N)/float64((n+63)/64), "us/take")
			})
		}
	}
}

// BenchmarkRevocationBacklog counts and polls a database with 20,000 live third-party leases and 100
// pending revocations: the work of an idle revocation queue each second.
func BenchmarkRevocationBacklog(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		s := open(b, databases()[engine](b))
		queue(b, s, 10, 100)
		closed, err := s.Tasks(b.Context(), broker.TaskFilter{State: broker.TaskClosed, Page: broker.Page{Limit: 1}})
		if err != nil || len(closed) != 1 {
			b.Fatal(len(closed), err)
		}
		pending := closed[0].ID
		task := storetest.Task()
		if err := s.Append(b.Context(), broker.Record{OpenTask: &task}); err != nil {
			b.Fatal(err)
		}
		together(b, 20_000, func(int) error {
			l := storetest.Intent(task.ID)
			if err := s.Append(b.Context(), broker.Record{IssueLease: &l}); err != nil {
				return err
			}
			up := *l.Upstream
			up.NextAt = l.ExpiresAt
			return s.Append(b.Context(), broker.Record{SettleLease: &broker.LeaseMove{ID: l.ID, Fence: 1, State: broker.LeaseLive, At: l.IssuedAt, Upstream: up}})
		})
		now := storetest.Epoch.Add(3 * time.Minute) // before the pending revocations are due
		b.Run(engine+"/sum", func(b *testing.B) {
			for b.Loop() {
				if got, err := s.RevocationBacklog(b.Context(), now); err != nil || len(got) != 1 || got[0].Revoking != 100 {
					b.Fatalf("got %+v, %v", got, err)
				}
			}
		})
		b.Run(engine+"/held", func(b *testing.B) {
			for b.Loop() {
				if got, err := s.Held(b.Context()); err != nil || got["cloud"] != 20_100 {
					b.Fatalf("got %v, %v", got, err)
				}
			}
		})
		b.Run(engine+"/pending", func(b *testing.B) {
			for b.Loop() {
				ls, err := s.Leases(b.Context(), broker.LeaseFilter{State: broker.LeaseRevoking, Now: now})
				if err != nil || len(ls) != 50 {
					b.Fatalf("got %d, %v", len(ls), err)
				}
			}
		})
		b.Run(engine+"/pending-of-task", func(b *testing.B) { // each poll of a caller that waits for the end of a task
			for b.Loop() {
				ls, err := s.Leases(b.Context(), broker.LeaseFilter{TaskID: pending, Upstream: true, State: broker.LeaseRevoking, Now: now, Page: broker.Page{Limit: 1}})
				if err != nil || len(ls) != 1 {
					b.Fatalf("got %d, %v", len(ls), err)
				}
			}
		})
		b.Run(engine+"/poll", func(b *testing.B) {
			for b.Loop() {
				if got, err := s.Take(b.Context(), "cloud", now, now.Add(time.Minute), 64); err != nil || len(got) != 0 {
					b.Fatalf("got %d, %v", len(got), err)
				}
			}
		})
	}
}

// BenchmarkClose closes tasks that have ten own tokens each.
func BenchmarkClose(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		b.Run(engine, func(b *testing.B) {
			s := open(b, databases()[engine](b))
			ids := make([]string, b.N)
			together(b, b.N, func(i int) error {
				task := storetest.Task()
				ids[i] = task.ID
				if err := s.Append(b.Context(), broker.Record{OpenTask: &task}); err != nil {
					return err
				}
				for range 10 {
					if err := s.Append(b.Context(), mint(task.ID)); err != nil {
						return err
					}
				}
				return nil
			})
			before := cpu()
			b.ResetTimer()
			together(b, b.N, func(i int) error { return s.Append(b.Context(), broker.Record{MoveTask: closing(ids[i])}) })
			b.StopTimer()
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/task")
		})
	}
}
