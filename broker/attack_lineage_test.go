package broker_test

import (
	"testing"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/brokertest"
)

// A mint whose task ends between the look at the ledger and the write to the
// journal leaves no lease behind the end, and the sandbox hears why.
func TestAttackMintBehindTheEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	x.store.on(audit.LeaseIssued, func() error {
		_, err := x.replica(t).CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID)
		return err
	})
	_, err := s.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.InvalidGrant)
	ls, err := x.db.Leases(t.Context(), broker.LeaseFilter{TaskID: s.Task.ID, Now: x.Clock.Now()})
	if err != nil || len(ls) != 0 {
		t.Errorf("%d leases are on the record behind the end of their task (%v)", len(ls), err)
	}
}
