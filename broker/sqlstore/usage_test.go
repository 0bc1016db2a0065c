package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// TestUsageCut: a window with more credentials than the limit begins later and reports
// that. With more uses than the limit, only the sum of uses begins later and reports
// that; a credential with an earlier use is not counted as unused.
func TestUsageCut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		s := open(t, empty(t))
		task := storetest.Task()
		records := []broker.Record{{OpenTask: &task}}
		for i := range 6 {
			l := storetest.Lease(task.ID)
			l.IssuedAt = storetest.Epoch.Add(time.Duration(i) * time.Minute)
			use := audit.Entry{At: l.IssuedAt.Add(time.Second), Kind: audit.EgressAllowed, Actor: l.Sandbox, TaskID: task.ID, LeaseID: l.ID}
			if i == 3 {
				use.Kind = audit.EgressDenied
			}
			records = append(records, broker.Record{IssueLease: &l, Entries: []audit.Entry{use}})
			handed := l
			handed.ID, handed.Delivery = storetest.Lease(task.ID).ID, "token"
			carried := use
			carried.LeaseID = handed.ID
			records = append(records, broker.Record{IssueLease: &handed}, broker.Record{Entries: []audit.Entry{carried}})
		}
		for _, r := range records {
			if err := s.Append(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		f := broker.UsageFilter{From: storetest.Epoch, Now: storetest.Epoch.Add(time.Hour), By: report.UsageByTask}
		for _, c := range []struct {
			leases, uses, left, used int
			cut, later               bool
		}{{12, 12, 6, 5, false, false}, {6, 12, 3, 2, true, false}, {12, 4, 6, 2, false, true}, {8, 4, 4, 2, true, true}} {
			got, err := s.UsageWithin(t.Context(), f, c.leases, c.uses)
			if err != nil || got.Cut != c.cut || got.From.After(f.From) != c.cut || got.UsesFrom.After(got.From) != c.later || len(got.Items) != 1 || got.HandedOut != c.left || got.Carried != c.left-1 {
				t.Fatalf("%+v: %+v, %v", c, got, err)
			}
			if r := got.Items[0]; r.Issued != c.left || r.Used != c.left-1 || r.Unused != 1 || r.Uses != c.used || r.LastUsed != storetest.Epoch.Add(5*time.Minute+time.Second) {
				t.Errorf("%+v: %+v", c, r)
			}
		}
	})
}

// TestUsageRows: the result has at most UsageRows rows, those with the most unused
// credentials, and reports whether there are more.
func TestUsageRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		s := open(t, empty(t))
		f := broker.UsageFilter{From: storetest.Epoch, Now: storetest.Epoch.Add(time.Hour), By: report.UsageByOwner}
		task := storetest.Task()
		if err := s.Append(t.Context(), broker.Record{OpenTask: &task}); err != nil {
			t.Fatal(err)
		}
		for n := range report.UsageRows + 1 {
			l := storetest.Lease(task.ID)
			l.Owner = fmt.Sprintf("%05d", n)
			if n == report.UsageRows {
				l.ExpiresAt = storetest.Epoch.Add(2 * time.Hour) // not expired: sorted last
			}
			if err := s.Append(t.Context(), broker.Record{IssueLease: &l}); err != nil {
				t.Fatal(err)
			}
			if n < report.UsageRows-1 {
				continue
			}
			got, err := s.Usage(t.Context(), f)
			if err != nil || len(got.Items) != report.UsageRows || got.More != (n == report.UsageRows) || got.Items[0].Owner != "00000" || got.Items[report.UsageRows-1].Owner != "00999" {
				t.Fatalf("%d: %d rows, more %v, %v", n, len(got.Items), got.More, err)
			}
		}
	})
}

// BenchmarkUsage computes the usage of 30 days with 20,000 credentials, every tenth of
// them unused, and 300,000 uses, which is above the limit.
func BenchmarkUsage(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		b.Run(engine, func(b *testing.B) {
			s := open(b, databases()[engine](b))
			const each, tasks, length = 100, 200, 30 * 24 * time.Hour
			together(b, tasks, func(i int) error {
				at := storetest.Epoch.Add(time.Duration(i) * length / tasks)
				task := storetest.Task()
				task.OpenedAt, task.Deadline = at, at.Add(time.Hour)
				if err := s.Append(b.Context(), broker.Record{OpenTask: &task}); err != nil {
					return err
				}
				for k := range each {
					r := mint(task.ID)
					l := r.IssueLease
					l.Delivery, l.IssuedAt, l.ExpiresAt = "egress", at.Add(time.Duration(k)*time.Second), at.Add(10*time.Minute)
					for n := range 17 {
						if k%10 > 0 {
							r.Entries = append(r.Entries, audit.Entry{At: l.IssuedAt.Add(time.Duration(n) * time.Second), Kind: audit.EgressAllowed, Actor: l.Sandbox, TaskID: task.ID, LeaseID: l.ID})
						}
					}
					if err := s.Append(b.Context(), r); err != nil {
						return err
					}
				}
				return nil
			})
			now := storetest.Epoch.Add(length)
			for _, by := range []broker.UsageBy{report.UsageByScope, report.UsageByTask} {
				b.Run(string(by), func(b *testing.B) {
					for b.Loop() {
						got, err := s.Usage(b.Context(), broker.UsageFilter{From: now.Add(-length), Now: now, By: by})
						unused := 0
						for _, r := range got.Items {
							unused += r.Unused
						}
						if err != nil || unused == 0 {
							b.Fatal(unused, err)
						}
						b.ReportMetric(float64(unused), "unused")
					}
				})
			}
		})
	}
}
