package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/storetest"
)

// TestUsageCut: a window with more credentials or uses than are summed up begins later, and
// says so; what is left out is not told as unused.
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
			records = append(records, broker.Record{IssueLease: &l, Entries: []audit.Entry{use}})
		}
		for _, r := range records {
			if err := s.Append(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		f := broker.UsageFilter{From: storetest.Epoch, Now: storetest.Epoch.Add(time.Hour), By: broker.UsageByTask}
		for _, c := range []struct {
			leases, uses, left int
			cut                bool
		}{{6, 6, 6, false}, {3, 6, 3, true}, {6, 2, 2, true}, {4, 2, 2, true}} {
			got, err := s.UsageWithin(t.Context(), f, c.leases, c.uses)
			if err != nil || got.Cut != c.cut || got.From.After(f.From) != c.cut || len(got.Items) != 1 || got.Items[0].Issued != c.left || got.Items[0].Unused != 0 {
				t.Errorf("%+v: %+v, %v", c, got, err)
			}
		}
	})
}

// TestUsageRows: there are as many rows as there may be, those with the most unused, and
// whether there are more is said.
func TestUsageRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		s := open(t, empty(t))
		f := broker.UsageFilter{From: storetest.Epoch, Now: storetest.Epoch.Add(time.Hour), By: broker.UsageByOwner}
		task := storetest.Task()
		if err := s.Append(t.Context(), broker.Record{OpenTask: &task}); err != nil {
			t.Fatal(err)
		}
		for n := range broker.UsageRows + 1 {
			l := storetest.Lease(task.ID)
			l.Owner = fmt.Sprintf("%05d", n)
			if n == broker.UsageRows {
				l.ExpiresAt = storetest.Epoch.Add(2 * time.Hour) // not over: the last of all
			}
			if err := s.Append(t.Context(), broker.Record{IssueLease: &l}); err != nil {
				t.Fatal(err)
			}
			if n < broker.UsageRows-1 {
				continue
			}
			got, err := s.Usage(t.Context(), f)
			if err != nil || len(got.Items) != broker.UsageRows || got.More != (n == broker.UsageRows) || got.Items[0].Owner != "00000" || got.Items[broker.UsageRows-1].Owner != "00999" {
				t.Fatalf("%d: %d rows, more %v, %v", n, len(got.Items), got.More, err)
			}
		}
	})
}
