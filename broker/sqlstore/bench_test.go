package sqlstore_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/storetest"
)

// mint is what one mint of an own token appends.
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
