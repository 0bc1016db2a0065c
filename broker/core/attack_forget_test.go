package core_test

import (
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/memstore"
)

// rollBack is a failover of the LiveStore to a replica that lags behind: it has the task as open,
// with the given leases, and no later write.
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

// I2: tasks and leases that this process has ended stay refused here, also after a failover that is
// not noticed.
//
//ebb:invariant I2 A process keeps refusing the tasks and leases that it has ended, even if the live store forgets the end
//ebb:invariant I2 Every process checks its own revoked set before it asks the live store whether a task or lease is live
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

// I2: a mint that was admitted before a close which no store could record yet returns no credential
// after it: the close is refused here from its first moment.
//
//ebb:invariant I2 A mint is refused if its task enters the revoked set of the process while the lease is added to the live store
func TestAttackMintBehindAPendingEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	var once sync.Once
	x.liveStore.on("PutLease", func() error {
		once.Do(func() {
			x.liveStore.on("SetState", func() error { return errDown })
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

// I1, I2: the LiveStore loses a lease while its provider mints: no caller gets the credential, and
// it is revoked.
//
//ebb:invariant I2 A credential whose lease the live store loses while the provider mints is not returned to any caller
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

// I2: a pause or close of an ancestor during a mint holds for the credential.
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

// I3: a handle that a driver saves during a mint is durable before the mint continues: the next
// holder of the intent can revoke the credential.
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

// I2: no credential is issued below a close that took effect in the LiveStore and is not in the
// audit log yet.
func TestAttackDelegateMintsBelowAPendingEnd(t *testing.T) {
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

// I2: a token narrowed from a token that was just revoked is not issued.
//
//ebb:invariant I2 A token that was narrowed from a parent token is returned only if the parent is still live after the mint
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

// I2: a close by another replica that the feed has reported stays refused here.
//
//ebb:invariant I2 Every process checks its own revoked set before it asks the live store whether a task or lease is live
func TestAttackEndForgottenIsKnownFromTheFeed(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	looks := &hooks{}
	other := x.replica(t, func(c *core.Config) { c.LiveStore = hookLiveStore{x.memory, looks} })
	x.janitor(t, other)
	s := x.Open(t, brokertest.Spec())
	tok := minted(t, s, "orders:eu/1:read")
	if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "refused without asking the live store", func() bool {
		before := looks.count("Status")
		return !activeAt(t, x, other, tok.Token.Reveal()) && looks.count("Status") == before
	})
}
