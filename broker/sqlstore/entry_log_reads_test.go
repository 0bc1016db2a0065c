package sqlstore_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// Every read that can return an egress entry, or count it, finds an entry that is in the log alone.
func TestEntryLogEveryRead(t *testing.T) {
	t.Parallel()
	task := storetest.Task()
	r := mint(task.ID)
	lease := r.IssueLease
	lease.Delivery = "egress"
	list := func(q broker.EntryQuery) func(s *sqlstore.Store) (int, error) {
		return func(s *sqlstore.Store) (n int, err error) {
			q.Limit, q.Look = 10, 11
			out, err := s.EntryList(t.Context(), q)
			for _, e := range out.Entries {
				if e.Kind == audit.EgressAllowed {
					n++
				}
			}
			return n, err
		}
	}
	all := func(f broker.EntryFilter) func(s *sqlstore.Store) (int, error) {
		return func(s *sqlstore.Store) (n int, err error) {
			for e, err := range s.Entries(t.Context(), f) {
				if err != nil {
					return 0, err
				}
				if e.Kind == audit.EgressAllowed {
					n++
				}
			}
			return n, nil
		}
	}
	for name, read := range map[string]func(s *sqlstore.Store) (int, error){
		"entries":             all(broker.EntryFilter{}),
		"entries of a lease":  all(broker.EntryFilter{LeaseID: lease.ID, Limit: 1, Desc: true}),
		"entries of a kind":   all(broker.EntryFilter{Kind: audit.EgressAllowed}),
		"entries of a prefix": all(broker.EntryFilter{Kind: "egress."}),
		"list":                list(broker.EntryQuery{}),
		"list of two kinds":   list(broker.EntryQuery{Kinds: []string{audit.TaskClosed, audit.EgressAllowed}}),
		"list of a prefix":    list(broker.EntryQuery{Kinds: []string{"egress."}}),
		"heads": func(s *sqlstore.Store) (n int, err error) {
			heads, err := s.Heads(t.Context())
			for _, e := range heads {
				if e.Kind == audit.EgressAllowed {
					n++
				}
			}
			return n, err
		},
		"usage": func(s *sqlstore.Store) (int, error) {
			u, err := s.Usage(t.Context(), broker.UsageFilter{From: storetest.Epoch.Add(-time.Hour), Now: storetest.Epoch.Add(time.Hour), By: report.UsageByTask})
			if err != nil || len(u.Items) != 1 {
				return 0, err
			}
			return u.Items[0].Uses, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := logged(t)
			appendAll(t, s, broker.Record{OpenTask: &task}, r, use(lease.ID))
			if s.WithoutRow() != 1 {
				t.Fatalf("%d entries are in the log alone, want 1", s.WithoutRow())
			}
			if n, err := read(s); n != 1 || err != nil {
				t.Errorf("the entry was found %d times, %v", n, err)
			}
		})
	}
}

// Only units whose every write is an egress entry are durable in the log alone: the log holds no
// leases, and reads of other kinds do not wait for its rows. The head for high-water marks includes
// the entries of the log.
func TestEntryLogUnits(t *testing.T) {
	t.Parallel()
	task := storetest.Task()
	both := mint(task.ID)
	both.Entries = use(both.IssueLease.ID).Entries
	mixed := use("lse_1")
	mixed.Entries = append(mixed.Entries, started().Entries...)
	_, s := logged(t)
	appendAll(t, s, broker.Record{OpenTask: &task})
	for name, r := range map[string]broker.Record{"a lease": both, "an entry of another kind": mixed} {
		appendAll(t, s, r)
		if n := s.WithoutRow(); n != 0 {
			t.Errorf("%s: %d entries are in the log alone", name, n)
		}
	}
	if found, err := s.Leases(t.Context(), broker.LeaseFilter{IDs: []string{both.IssueLease.ID}, Now: storetest.Epoch}); err != nil || len(found) != 1 {
		t.Errorf("the lease was found %d times, %v", len(found), err)
	}
	_, before, err := s.Durable()
	appendAll(t, s, use("lse_2"))
	if _, after, err2 := s.Durable(); err != nil || err2 != nil || s.WithoutRow() != 1 || after.Seq != before.Seq+1 {
		t.Errorf("with %d entries in the log alone, the durable head moved from %d to %d, %v, %v", s.WithoutRow(), before.Seq, after.Seq, err, err2)
	}
}
