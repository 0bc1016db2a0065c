package sqlstore_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// scans matches steps that read a whole table, for any page. PostgreSQL may hash small
// tables, as here, where it would join large ones by key.
var scans = regexp.MustCompile(`(?m)SCAN (leases|o|u|a|z|audit_entries|t|tasks)$|Seq Scan on (leases|audit_entries)`)

// sorts matches steps that sort a whole window. Both engines sort rows of equal times
// (the last term, incrementally): these are few.
var sorts = regexp.MustCompile(`(?m)USE TEMP B-TREE FOR ORDER BY|^ *(->)? *Sort  `)

// TestListPlans: no page of a list reads or sorts the whole table (issue 5).
func TestListPlans(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, empty func(testing.TB) string) {
		url := empty(t)
		s := toFill(t, url)
		tasks := fill(t, s, 200, 5_000)
		analyse(t, s, url)
		now := storetest.Epoch.Add(time.Hour)
		place := broker.LeasePlace{ID: "lse_0000000000000077", Ending: now.Add(10 * time.Minute)}
		for name, q := range map[string]broker.LeaseQuery{
			"all": {}, "older": {Place: place}, "newer": {Place: place, Back: true}, "oldest": {Order: broker.LeaseOldest}, "text": {Text: "x"},
			"ending": {Order: broker.LeaseEnding}, "ending on": {Order: broker.LeaseEnding, Place: place}, "ending back": {Order: broker.LeaseEnding, Place: place, Back: true},
			"task": {TaskID: tasks[3]}, "owner": {Owner: "nobody"}, "owner on": {Owner: "ann@example.org", Place: place}, "provider": {Provider: "orders"}, "rare provider": {Provider: "aws"},
			"live": {State: broker.LeaseLive}, "revoked": {State: broker.LeaseRevoked}, "expired": {State: broker.LeaseExpired},
			"intent": {State: broker.LeaseIntent}, "revoking": {State: broker.LeaseRevoking}, "unconfirmed": {State: broker.LeaseUnconfirmed},
			"from": {From: now}, "to": {To: now}, "day": {From: now.Add(-time.Hour), To: now},
		} {
			q.Now, q.Limit, q.Look = now, 50, 2000
			window, page, err := s.Plans(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if scans.MatchString(page) || strings.HasSuffix(window, "SCAN l") { // in a page, that is the window
				t.Errorf("%s reads the table:\n%s", name, page)
			}
			if sorts.MatchString(window) && q.TaskID == "" && q.State != broker.LeaseRevoking {
				t.Errorf("%s sorts the table:\n%s", name, window)
			}
		}
		at := broker.EntryPlace{At: storetest.Epoch.Add(time.Minute), Writer: "w", Seq: 5}
		for name, q := range map[string]broker.EntryQuery{
			"all": {}, "older": {Place: at}, "newer": {Place: at, Back: true}, "oldest": {Oldest: true, Place: at}, "actor": {Actor: "nobody"}, "kind": {Kinds: []string{audit.TaskClosed}}, "kind on": {Kinds: []string{audit.TaskClosed}, Place: at},
			"minted": {Kinds: []string{audit.LeaseIssued}}, "prefix": {Kinds: []string{"lease."}}, "task": {TaskID: tasks[3]}, "task on": {TaskID: tasks[3], Place: at}, "lease": {LeaseID: "lse_0000000000000077"},
			"request": {RequestID: "req_1"}, "day": {From: now.Add(-time.Hour), To: now}, "part": {Writer: "w", FirstSeq: 5, LastSeq: 9},
		} {
			q.Limit, q.Look = 50, 2000
			window, page, err := s.EntriesPlans(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if scans.MatchString(page) {
				t.Errorf("the record, %s, is read whole:\n%s", name, page)
			}
			if sorts.MatchString(window) && q.LeaseID+q.RequestID+q.Writer == "" { // these conditions select few rows
				t.Errorf("the record, %s, is sorted:\n%s", name, window)
			}
		}
		plans, err := s.TallyPlans(t.Context())
		if err != nil || scans.MatchString(plans) {
			t.Errorf("the tally reads the table (%v):\n%s", err, plans)
		}
	})
}

// analyse updates the planner's statistics, which the databases otherwise do by
// themselves.
func analyse(t *testing.T, s *sqlstore.Store, _ string) {
	t.Helper()
	if err := s.Say(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
}
