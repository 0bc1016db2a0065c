package core_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// A mint whose task is closed between the read of the LiveStore and the write to the database
// leaves no lease after the close, and the sandbox gets the reason.
func TestAttackMintBehindTheEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	x.store.on(audit.LeaseIssued, func() error {
		_, err := x.replica(t).CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait)
		return err
	})
	_, err := s.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.InvalidGrant)
	ls, err := x.db.Leases(t.Context(), broker.LeaseFilter{TaskID: s.Task.ID, Now: x.Clock.Now()})
	if err != nil || len(ls) != 0 {
		t.Errorf("%d leases are on the record behind the end of their task (%v)", len(ls), err)
	}
}

// narrow exchanges a token for a narrower one.
func narrow(t *testing.T, s *brokertest.Sandbox, from broker.Token, scope string) (broker.Token, error) {
	t.Helper()
	r := s.Request(t, scope)
	r.Subject = broker.Subject{AccessToken: from.Token.Reveal(), Fault: broker.Invalid}
	return s.Env.Broker.Token(t.Context(), r)
}

func narrowed(t *testing.T, s *brokertest.Sandbox, from broker.Token, scope string) broker.Token {
	t.Helper()
	tok, err := narrow(t, s, from, scope)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// The revocation of a token revokes its narrowed tokens: on every replica, in the feed, in the
// audit log, and after a refill of the LiveStore.
func TestAttackOutlivingTheParent(t *testing.T) {
	t.Parallel()
	for name, revoke := range revocations(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			other := x.replica(t)
			s := x.Open(t, brokertest.Spec())
			root := minted(t, s, "orders:eu/1:read orders:eu/2:read")
			sibling := minted(t, s, "orders:eu/1:read")
			child := narrowed(t, s, root, "orders:eu/1:read orders:eu/2:read")
			grandchild := narrowed(t, s, child, "orders:eu/1:read")
			if l, err := x.Broker.Lease(t.Context(), x.who(brokertest.Auditor), grandchild.LeaseID); err != nil || l.ParentID != child.LeaseID {
				t.Fatalf("the lease names the parent %q (%v)", l.ParentID, err)
			}
			if err := revoke(x, root); err != nil {
				t.Fatal(err)
			}
			if _, err := narrow(t, s, grandchild, "orders:eu/1:read"); err == nil {
				t.Error("a token was narrowed from one whose ancestor is dead")
			}
			evs, _, err := x.Broker.Follow(t.Context(), x.who(brokertest.Server), "", 10, 0)
			if err != nil {
				t.Fatal(err)
			}
			check := func(when string, brokers ...*core.Broker) {
				t.Helper()
				for _, b := range brokers {
					for _, tok := range []broker.Token{root, child, grandchild} {
						l, err := b.Lease(t.Context(), x.who(brokertest.Auditor), tok.LeaseID)
						if activeAt(t, x, b, tok.Token.Reveal()) || err != nil || l.State != broker.LeaseRevoked || l.RevokedBy != brokertest.Operator {
							t.Errorf("%s: %s of the lineage is alive, or on the record as %s by %q (%v)", when, tok.Scopes, l.State, l.RevokedBy, err)
						}
						if !slices.ContainsFunc(evs, func(e broker.Event) bool { return e.LeaseID == tok.LeaseID }) {
							t.Errorf("%s: %s is not in the feed", when, tok.LeaseID)
						}
					}
					if !activeAt(t, x, b, sibling.Token.Reveal()) {
						t.Errorf("%s: a token of its own is dead", when)
					}
				}
			}
			check("at once", x.Broker, other)
			x.memory.lose()
			check("after the live store was lost", x.replica(t))
		})
	}
}

// Without the database, the narrowed tokens of a token are not known, but each of them names its
// parent.
func TestAttackOutlivingTheParentWithoutStore(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	other := x.replica(t)
	s := x.Open(t, brokertest.Spec())
	root := minted(t, s, "orders:eu/1:read")
	child := narrowed(t, s, root, "orders:eu/1:read")
	for _, op := range []string{"Append", "Leases", "Tasks"} {
		x.store.on(op, func() error { return errDown })
	}
	err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: ptr(x.who(brokertest.Operator))}, root.Token.Reveal())
	kindOf(t, err, broker.Unavailable)
	if activeAt(t, x, other, child.Token.Reveal()) {
		t.Error("the parent is dead, its child alive on the other replica")
	}
	for _, op := range []string{"Append", "Leases", "Tasks"} {
		x.store.on(op, func() error { return nil })
	}
	x.janitor(t, x.Broker)
	eventually(t, "the end of the child is on the record", func() bool {
		l, err := other.Lease(t.Context(), x.who(brokertest.Auditor), child.LeaseID)
		return err == nil && l.State == broker.LeaseRevoked
	})
}

// Tokens are narrowed while their root is revoked: none survives.
func TestAttackNarrowingRace(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	other := x.replica(t)
	s := x.Open(t, brokertest.Spec())
	root := minted(t, s, "orders:eu/1:read")
	var mu sync.Mutex
	var born []broker.Token
	var wg sync.WaitGroup
	some := make(chan struct{}, 100)
	for range 8 {
		wg.Go(func() {
			for from := root; ; {
				tok, err := narrow(t, s, from, "orders:eu/1:read")
				if err != nil {
					return
				}
				some <- struct{}{}
				mu.Lock()
				born = append(born, tok)
				if len(born)%5 != 0 { // a lineage of up to five
					from = tok
				} else {
					from = root
				}
				mu.Unlock()
			}
		})
	}
	for range 20 {
		<-some
	}
	go func() {
		for range some {
		}
	}()
	if _, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), root.LeaseID, "leak"); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	close(some)
	for _, tok := range born {
		if activeAt(t, x, other, tok.Token.Reveal()) {
			t.Error("a narrowed token outlived its root")
		}
	}
	x.memory.lose()
	again := x.replica(t)
	for _, tok := range born {
		if activeAt(t, x, again, tok.Token.Reveal()) {
			t.Error("a narrowed token came back to life")
		}
	}
}
