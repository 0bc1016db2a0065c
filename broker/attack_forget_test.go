package broker_test

import (
	"sync"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/brokertest"
	"ebb/broker/memstore"
)

// rollBack is a failover of the ledger to a replica that lags behind: it knows a task as
// open, with the leases that are named, and nothing of what came after.
func (x *target) rollBack(t *testing.T, task broker.Task, leases ...broker.LiveLease) {
	t.Helper()
	old := memstore.New(memstore.Config{Now: x.memory.now})
	task.State = broker.TaskOpen
	err := old.PutTask(t.Context(), broker.Live{Task: task, Due: task.Deadline}, task.Deadline.Add(time.Minute))
	for _, l := range leases {
		if err == nil {
			err = old.PutLease(t.Context(), l, broker.LeaseLimits{}, false)
		}
	}
	if err == nil {
		err = old.Mark(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
	x.memory.mu.Lock()
	defer x.memory.mu.Unlock()
	x.memory.l = old
}

// I2: what this process has ended stays refused here, whatever the ledger forgets in a
// failover that nobody notices.
func TestAttackEndForgottenInAFailover(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*target, broker.Token, string) error{
		"task": func(x *target, _ broker.Token, task string) error {
			_, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), task, 0)
			return err
		},
		"lease": func(x *target, tok broker.Token, _ string) error {
			_, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), tok.LeaseID, "leak")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			s := x.Open(t, brokertest.Spec())
			tok := minted(t, s, "orders:eu/1:read")
			if err := end(x, tok, s.Task.ID); err != nil {
				t.Fatal(err)
			}
			x.rollBack(t, s.Task, broker.LiveLease{ID: tok.LeaseID, TaskID: s.Task.ID, ExpiresAt: x.Clock.Now().Add(time.Minute)})
			if x.Active(t, tok.Token.Reveal()) {
				t.Error("it is active again")
			}
		})
	}
}

// I2: a mint that was admitted before an end which no store could take yet hands
// nothing out after it: the end is refused here from its first moment.
func TestAttackMintBehindAnOwedEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	var once sync.Once
	x.ledger.on("PutLease", func() error {
		once.Do(func() {
			x.ledger.on("SetState", func() error { return errDown })
			x.store.on("Append.move", func() error { return errDown })
			_, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, 0)
			if err == nil || broker.AsError(err).Kind != broker.Unavailable {
				t.Errorf("the end: %v", err)
			}
		})
		return nil
	})
	_, err := s.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.InvalidGrant)
}

// I1, I2: a ledger that forgets a lease while its provider mints: nobody gets the
// credential, and it is taken back.
func TestAttackLeaseForgottenDuringTheMint(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{})
	s := x.Open(t, upSpec())
	x.up.Before(func(op, _ string) {
		if op == brokertest.OpMint {
			x.rollBack(t, s.Task)
		}
	})
	_, err := s.Ask(t, "up:a:read")
	kindOf(t, err, broker.Unavailable)
	x.settled(t, s.Task.ID)
	if x.up.Minted() != 1 || len(x.up.Alive()) != 0 {
		t.Errorf("minted %d, alive %v", x.up.Minted(), x.up.Alive())
	}
}

// I2: what happens above a delegate while its provider mints holds for the credential.
func TestAttackDelegateMintsBehindThePauseAtAThirdParty(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{})
	spec := upSpec()
	spec.Delegation = delegating().Delegation
	s := x.Open(t, spec)
	child := s.Delegate(t, ceiling("up:a:read"))
	other := x.replica(t)
	x.up.Before(func(op, _ string) {
		if op == brokertest.OpMint {
			if _, err := other.PauseTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, "stop"); err != nil {
				t.Error(err)
			}
		}
	})
	_, err := child.Ask(t, "up:a:read")
	kindOf(t, err, broker.Denied)
	x.settled(t, child.Task.ID)
	if x.up.Minted() != 1 || len(x.up.Alive()) != 0 {
		t.Errorf("minted %d, alive %v", x.up.Minted(), x.up.Alive())
	}
}

// I3: what a driver saves on the way is durable before it goes on: whoever takes the
// intent over can end what it made.
func TestUpstreamSavedHandleIsDurableBeforeTheMint(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{ByHandle: true}, idle: true})
	s := x.Open(t, upSpec())
	var once sync.Once
	x.up.Before(func(op, _ string) {
		if op != brokertest.OpMint {
			return
		}
		once.Do(func() {
			ls, err := x.db.Sealed(t.Context(), "none", "", 10)
			if err != nil || len(ls) != 1 || ls[0].TaskID != s.Task.ID || ls[0].State != broker.LeaseIntent || ls[0].Upstream.Handle == "" {
				t.Errorf("stored when the provider is asked: %+v (%v)", ls, err)
			}
		})
	})
	minted(t, s, "up:a:read")
}

// I2: nothing mints below an end that is true in the ledger and not on the record yet.
func TestAttackDelegateMintsBelowAnOwedEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, delegating())
	child := s.Delegate(t, ceiling("orders:eu/1:read"))
	x.store.on("Append.move", func() error { return errDown })
	_, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, 0)
	kindOf(t, err, broker.Unavailable)
	_, err = child.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Invalid)
}

// I2: a token that is narrowed from one which was revoked a moment ago is not handed out.
func TestAttackNarrowedFromTheRevoked(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	parent := minted(t, s, "orders:eu/1:read")
	x.store.on(audit.LeaseIssued, func() error {
		_, err := x.replica(t).RevokeLease(t.Context(), x.who(brokertest.Operator), parent.LeaseID, "leak")
		return err
	})
	r := s.Request(t, "orders:eu/1:read")
	r.Subject = broker.Subject{AccessToken: parent.Token.Reveal(), Fault: broker.Invalid}
	_, err := x.Broker.Token(t.Context(), r)
	kindOf(t, err, broker.InvalidGrant)
}

// I2: what another replica has ended, and the feed has told, stays refused here.
func TestAttackEndForgottenIsKnownFromTheFeed(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	looks := &hooks{}
	other := x.replica(t, func(c *broker.Config) { c.Ledger = hookLedger{x.memory, looks} })
	x.janitor(t, other)
	s := x.Open(t, brokertest.Spec())
	tok := minted(t, s, "orders:eu/1:read")
	if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "refused without asking the ledger", func() bool {
		before := looks.count("Status")
		return !activeAt(t, x, other, tok.Token.Reveal()) && looks.count("Status") == before
	})
}
