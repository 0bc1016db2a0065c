package core_test

import (
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// revocations are the ways in which an operator revokes a credential.
func revocations(t *testing.T) map[string]func(*target, broker.Token) error {
	return map[string]func(*target, broker.Token) error{
		"lease": func(x *target, tok broker.Token) error {
			_, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), tok.LeaseID, "leak")
			return err
		},
		"token": func(x *target, tok broker.Token) error {
			return x.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: ptr(x.who(brokertest.Operator))}, tok.Token.Reveal())
		},
	}
}

// A revocation during a short failure of the LiveStore is only in the audit log. A retry, which the
// response asks for, completes it on every replica.
//
//ebb:invariant I2
func TestAttackRevocationAfterABlip(t *testing.T) {
	t.Parallel()
	for name, revoke := range revocations(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			other := x.replica(t)
			tok := minted(t, x.Open(t, brokertest.Spec()), "orders:eu/1:read")
			x.liveStore.on("EndLease", once(errDown))
			kindOf(t, revoke(x, tok), broker.Unavailable)
			if err := revoke(x, tok); err != nil {
				t.Fatal(err)
			}
			if activeAt(t, x, other, tok.Token.Reveal()) {
				t.Error("revoked on the record, confirmed to the caller, alive on the other replica")
			}
		})
	}
}

// Without a retry, the broker completes the pending revocation by itself, as for tasks.
//
//ebb:invariant I3
func TestAttackRevocationIsPending(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*target){
		"live_store": func(x *target) { x.liveStore.on("EndLease", once(errDown)) },
		"database":   func(x *target) { x.store.on(audit.LeaseRevoked, once(errDown)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			other := x.replica(t)
			tok := minted(t, x.Open(t, brokertest.Spec()), "orders:eu/1:read")
			fault(x)
			_, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), tok.LeaseID, "leak")
			kindOf(t, err, broker.Unavailable)
			x.janitor(t, x.Broker)
			eventually(t, "the revocation is finished", func() bool {
				l, err := other.Lease(t.Context(), x.who(brokertest.Auditor), tok.LeaseID)
				return err == nil && l.State == broker.LeaseRevoked && !activeAt(t, x, other, tok.Token.Reveal())
			})
		})
	}
}

// I6: the token contains all data that its revocation needs, so a database that is down must not
// keep it alive.
//
//ebb:invariant I6
func TestAttackRevocationNeedsNoStore(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	other := x.replica(t)
	s := x.Open(t, brokertest.Spec())
	first, second := minted(t, s, "orders:eu/1:read"), minted(t, s, "orders:eu/2:read")
	for _, op := range []string{"Append", "Leases", "Tasks"} {
		x.store.on(op, func() error { return errDown })
	}
	err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: ptr(x.who(brokertest.Operator))}, first.Token.Reveal())
	kindOf(t, err, broker.Unavailable)
	r := s.Request(t, "orders:eu/1:read")
	err = x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &r.Subject, Possession: r.Possession}, second.Token.Reveal())
	kindOf(t, err, broker.Unavailable)
	for _, tok := range []broker.Token{first, second} {
		if activeAt(t, x, other, tok.Token.Reveal()) {
			t.Error("alive although the live store could have refused it")
		}
	}
}

// I6: a flood of mints, by the sandbox or by another task of its owner, must not prevent it from
// revoking a credential.
//
//ebb:invariant I6
func TestAttackRevocationQueue(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Caps.MintsPerMinute = 3
	s := x.Open(t, spec)
	tok := minted(t, s, "orders:eu/1:read")
	var err error
	for range 5 {
		_, err = s.Ask(t, "orders:eu/1:read")
	}
	kindOf(t, err, broker.TooMany)
	r := s.Request(t, "orders:eu/1:read")
	if err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &r.Subject, Possession: r.Possession}, tok.Token.Reveal()); err != nil {
		t.Errorf("a flood of mints blocks revocation: %v", err)
	}
	if x.Active(t, tok.Token.Reveal()) {
		t.Error("still active")
	}
}

// A token is narrowed while it is revoked: the narrowed one must not be issued after the revocation
// was confirmed.
func TestAttackNarrowingADeadParent(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	parent := minted(t, s, "orders:eu/1:read orders:eu/2:read")
	x.store.on(audit.LeaseIssued, func() error {
		return x.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: ptr(x.who(brokertest.Operator))}, parent.Token.Reveal())
	})
	r := s.Request(t, "orders:eu/1:read")
	r.Subject = broker.Subject{AccessToken: parent.Token.Reveal(), Fault: broker.Invalid}
	if child, err := x.Broker.Token(t.Context(), r); err == nil && x.Active(t, child.Token.Reveal()) {
		t.Error("a token was narrowed from one that was revoked before")
	}
}

// RFC 7009 for a token of the API: a success response means that the token is revoked.
func TestAttackRevokedPrincipalTokenWorks(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	key := x.Keys[brokertest.Runner]
	tok, err := x.Broker.PrincipalToken(t.Context(), x.Assertion(t, brokertest.Runner, key), x.Prove(t, key), "")
	if err != nil {
		t.Fatal(err)
	}
	token := tok.Token.Reveal()
	if _, err := x.Broker.AuthenticateToken(t.Context(), token, proofFor(t, x.Env, key, token)); err != nil {
		t.Fatal(err)
	}
	if err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: ptr(x.who(brokertest.Operator))}, token); err != nil {
		t.Fatal(err)
	}
	_, err = x.Broker.AuthenticateToken(t.Context(), token, proofFor(t, x.Env, key, token))
	kindOf(t, err, broker.Unauthenticated)
	_, err = x.replica(t).AuthenticateToken(t.Context(), token, proofFor(t, x.Env, key, token))
	kindOf(t, err, broker.Unauthenticated)
}
