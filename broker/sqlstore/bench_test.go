package sqlstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// openOne opens the task tsk_1, unless an earlier run did.
func openOne(ctx context.Context, s *sqlstore.Store) error {
	err := s.Append(ctx, broker.Record{OpenTask: &broker.Task{ID: "tsk_1", State: broker.TaskOpen}})
	if errors.Is(err, broker.ErrExists) {
		return nil
	}
	return err
}

func mustOpenOne(t *testing.T, s *sqlstore.Store) *sqlstore.Store {
	t.Helper()
	if err := openOne(context.WithoutCancel(t.Context()), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// mint returns the record that one mint of an own token appends.
func mint(task string) broker.Record {
	l := storetest.Lease(task)
	data, _ := json.Marshal(map[string]any{
		"provider": l.Provider, "scope": l.Scopes, "resource": l.Resource, "exp": l.ExpiresAt, "cnf": l.Binding, "rules": l.Rule, "tool": l.Tool, "txn": l.Txn,
	})
	e := audit.Entry{At: l.IssuedAt, Kind: audit.LeaseIssued, Actor: l.Sandbox, TaskID: task, LeaseID: l.ID, Data: data}
	return broker.Record{IssueLease: &l, Entries: []audit.Entry{e}}
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkAppend(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		for _, n := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/c%d", engine, n), func(b *testing.B) {
				s := open(b, databases()[engine](b))
				tasks := make([]string, 100)
				for i := range tasks {
					task := storetest.Task()
					tasks[i] = task.ID
					if err := s.Append(b.Context(), broker.Record{OpenTask: &task}); err != nil {
						b.Fatal(err)
					}
				}
				recs := make([]broker.Record, b.N)
				for i := range recs {
					recs[i] = mint(tasks[i%len(tasks)])
				}
				var next atomic.Int64
				var wg sync.WaitGroup
				b.ReportAllocs()
				before := cpu()
				b.ResetTimer()
				for range n {
					wg.Go(func() {
						for {
							i := int(next.Add(1)) - 1
							if i >= b.N {
								return
							}
							if err := s.Append(b.Context(), recs[i]); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "units/s")
				b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/unit")
			})
		}
	}
}

// BenchmarkRead reads from a database with 200,000 leases, half of them live, in 1,000
// tasks. Every tenth task is closed.
func BenchmarkRead(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		b.Run(engine, func(b *testing.B) {
			s := open(b, databases()[engine](b))
			tasks := fill(b, s, 1000, 200_000)
			now := storetest.Epoch.Add(time.Hour)
			page := func(f broker.LeaseFilter) func() (int, error) {
				f.Now = now
				return func() (int, error) {
					ls, err := s.Leases(b.Context(), f)
					return len(ls), err
				}
			}
			for _, bench := range []struct {
				name string
				want int
				read func() (int, error)
			}{
				{"refill", 90_000, func() (int, error) { return walk(b, s, broker.LeaseFilter{State: broker.LeaseLive, Now: now}) }},
				{"one", 1, page(broker.LeaseFilter{IDs: []string{"lse_0000000000000077"}})},
				{"task", 50, page(broker.LeaseFilter{TaskID: tasks[7], Page: broker.Page{Desc: true}})},
				{"owner", 50, page(broker.LeaseFilter{Owner: "owner7", Page: broker.Page{Desc: true}})},
				{"newest", 50, page(broker.LeaseFilter{Page: broker.Page{Desc: true}})},
				{"revoked", 50, page(broker.LeaseFilter{State: broker.LeaseRevoked, Page: broker.Page{Desc: true}})},
				{"hour", 50, page(broker.LeaseFilter{From: now.Add(-time.Minute), To: now})},
				{"entries", 200, func() (int, error) {
					n := 0
					for _, err := range s.Entries(b.Context(), broker.EntryFilter{TaskID: tasks[7]}) {
						if err != nil {
							return 0, err
						}
						n++
					}
					return n, nil
				}},
				{"heads", 1, func() (int, error) { h, err := s.Heads(b.Context()); return len(h), err }},
			} {
				b.Run(bench.name, func(b *testing.B) {
					before := cpu()
					for b.Loop() {
						if n, err := bench.read(); err != nil || n != bench.want {
							b.Fatalf("got %d, %v; want %d", n, err, bench.want)
						}
					}
					b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/op")
				})
			}
		})
	}
}

// fill appends leases, the first half of them expired an hour after the epoch.
func fill(b testing.TB, s *sqlstore.Store, tasks, leases int) []string {
	ids := make([]string, tasks)
	for i := range ids {
		task := storetest.Task()
		ids[i] = task.ID
		if err := s.Append(b.Context(), broker.Record{OpenTask: &task}); err != nil {
			b.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	const writers = 64
	for w := range writers {
		wg.Go(func() {
			for i := w; i < leases; i += writers {
				r := mint(ids[i%tasks])
				l := r.IssueLease
				l.ID, l.Owner = fmt.Sprintf("lse_%016d", i), fmt.Sprint("owner", i%97)
				l.IssuedAt = storetest.Epoch.Add(time.Duration(i) * time.Hour / time.Duration(leases))
				l.ExpiresAt = l.IssuedAt.Add(30 * time.Minute)
				if err := s.Append(b.Context(), r); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := 0; i < tasks; i += 10 {
		if err := s.Append(b.Context(), broker.Record{MoveTask: closing(ids[i])}); err != nil {
			b.Fatal(err)
		}
	}
	return ids
}

func closing(id string) *broker.TaskMove {
	return &broker.TaskMove{ID: id, State: broker.TaskClosed, Cause: broker.CauseCompleted, By: "ci", At: storetest.Epoch.Add(40 * time.Minute)}
}

func walk(b *testing.B, s *sqlstore.Store, f broker.LeaseFilter) (int, error) {
	f.Page.Limit = 1000
	for n := 0; ; {
		ls, err := s.Leases(b.Context(), f)
		n += len(ls)
		if err != nil || len(ls) < f.Page.Limit {
			return n, err
		}
		f.Page.After = ls[len(ls)-1].ID
	}
}
