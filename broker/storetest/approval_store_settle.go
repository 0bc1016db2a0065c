package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

func settle(t *storeTest) {
	at := Epoch.Add(2 * time.Minute)
	all := []broker.RequestState{
		broker.RequestPending, broker.RequestApproved, broker.RequestIssued, broker.RequestDenied, broker.RequestExpired, broker.RequestWithdrawn, "", "gone",
	}
	legal := map[[2]broker.RequestState]bool{
		{broker.RequestPending, broker.RequestDenied}: true, {broker.RequestPending, broker.RequestExpired}: true, {broker.RequestPending, broker.RequestWithdrawn}: true,
		{broker.RequestApproved, broker.RequestIssued}: true, {broker.RequestApproved, broker.RequestExpired}: true, {broker.RequestApproved, broker.RequestWithdrawn}: true,
	}
	for _, from := range all {
		for _, to := range all {
			r := t.asked(nil)
			if from == broker.RequestApproved {
				var err error
				if r, err = t.ApprovalStore.Vote(t.Context(), yes(r, "bob"), Epoch.Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			e := Entry(audit.RequestWithdrawn, r.TaskID)
			e.RequestID = r.ID
			got, err := t.ApprovalStore.Settle(t.Context(), r.ID, from, to, at, broker.Record{Entries: []audit.Entry{e}})
			if !legal[[2]broker.RequestState{from, to}] {
				if err == nil || errors.Is(err, broker.ErrDone) {
					t.Errorf("%s to %s: got %v, want a refusal", from, to, err)
				}
				t.same("unchanged", t.request(r.ID), r)
				continue
			}
			t.want("settle", err, nil)
			r.State = to
			if from == broker.RequestPending {
				r.DecidedAt = at
			}
			if from == broker.RequestPending && to == broker.RequestExpired {
				r.Code = broker.NoAnswer
			}
			t.same(fmt.Sprint(from, " to ", to), got, r)
			t.same("stored", t.request(r.ID), r)
			_, err = t.ApprovalStore.Settle(t.Context(), r.ID, from, to, at, broker.Record{Entries: []audit.Entry{e}})
			t.want("again", err, broker.ErrDone)
			t.same("entries", t.kinds(r.ID)[1:], []string{audit.RequestWithdrawn})
		}
	}
	_, err := t.ApprovalStore.Settle(t.Context(), "req_none", broker.RequestPending, broker.RequestWithdrawn, at, broker.Record{})
	t.want("unknown", err, broker.ErrNotFound)
}

func settleRace(t *storeTest) {
	second := t.another()
	r := t.asked(nil)
	errs := race(16, func(i int) error {
		to := []broker.RequestState{broker.RequestDenied, broker.RequestExpired, broker.RequestWithdrawn}[i%3]
		e := Entry(audit.RequestExpired, r.TaskID)
		e.RequestID = r.ID
		_, err := []broker.ApprovalStore{t.ApprovalStore, second.ApprovalStore}[i%2].Settle(context.WithoutCancel(t.Context()), r.ID, broker.RequestPending, to, Epoch.Add(time.Minute),
			broker.Record{Entries: []audit.Entry{e}})
		return err
	})
	t.same("winners", t.winners("settle", errs, broker.ErrDone), 1)
	kinds := t.kinds(r.ID) // from two writers at the same time: in either order
	slices.Sort(kinds)
	t.same("entries", kinds, []string{audit.RequestCreated, audit.RequestExpired})
}

// The first token and the move of the request are one unit.
func settleWithLease(t *storeTest) {
	r := t.asked(nil)
	r, err := t.ApprovalStore.Vote(t.Context(), yes(r, "bob"), Epoch.Add(time.Hour))
	t.want("vote", err, nil)
	taken := t.issue(Lease(r.TaskID))
	record := func(l broker.Lease) broker.Record {
		e := Entry(audit.LeaseIssued, r.TaskID)
		e.RequestID, e.LeaseID = r.ID, l.ID
		return broker.Record{IssueLease: &l, Entries: []audit.Entry{e}}
	}
	_, err = t.ApprovalStore.Settle(t.Context(), r.ID, broker.RequestApproved, broker.RequestIssued, Epoch, record(taken))
	t.want("with a lease that exists", err, broker.ErrExists)
	t.same("unchanged", t.request(r.ID), r)
	leases := make([]broker.Lease, 16)
	errs := race(16, func(i int) error {
		leases[i] = Lease(r.TaskID)
		_, err := t.ApprovalStore.Settle(context.WithoutCancel(t.Context()), r.ID, broker.RequestApproved, broker.RequestIssued, Epoch, record(leases[i]))
		return err
	})
	t.same("winners", t.winners("settle", errs, broker.ErrDone), 1)
	for i, l := range leases {
		got, err := t.Store.Leases(t.Context(), broker.LeaseFilter{IDs: []string{l.ID}, Now: l.IssuedAt})
		if err != nil || (len(got) == 1) != (errs[i] == nil) {
			t.Errorf("lease of caller %d: got %d, %v; the caller got %v", i, len(got), err, errs[i])
		}
	}
	t.same("entries", t.kinds(r.ID), []string{audit.RequestCreated, audit.LeaseIssued})
	t.same("state", t.request(r.ID).State, broker.RequestIssued)
}
