package core_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
)

// skewed returns a third party whose clock differs from the broker's.
func skewed(t *testing.T, by time.Duration, p brokertest.Party) *third {
	t.Helper()
	x := thirdParty(t, shape{party: p, config: brokertest.Config{Policies: anything}})
	x.up.Now = func() time.Time { return x.Clock.Now().Add(by) }
	return x
}

// soon sets the clock to five minutes before the expiry of a lease.
func (x *third) soon(l broker.Lease) { x.Clock.Add(l.ExpiresAt.Sub(x.Clock.Now()) - 5*time.Minute) }

// A provider's clock that is minutes off at most shortens a credential's lifetime: a live
// credential never counts as expired, and its revocation is always checked.
func TestFaultProvidersClockIsOff(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"behind": -3 * time.Minute, "ahead": 3 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := skewed(t, by, brokertest.Party{})
			s := x.Open(t, upSpec())
			before := x.Clock.Now()
			tok := minted(t, s, "up:a:read")
			l := x.lease(t, tok.LeaseID)
			if l.ExpiresAt.After(before.Add(tok.ExpiresIn.Duration())) || l.Upstream.DiesAt.Before(l.ExpiresAt) {
				t.Errorf("expires %s, dies %s", l.ExpiresAt, l.Upstream.DiesAt)
			}
			x.up.On(brokertest.OpRevoke, brokertest.Error500)
			x.closed(t, s.Task.ID)
			eventually(t, "tried", func() bool { return x.lease(t, l.ID).Upstream.Attempts > 0 })
			x.soon(l)
			x.turn(t, time.Minute, "given up", func() bool { return x.lease(t, l.ID).State != broker.LeaseRevoking })
			if l := x.lease(t, l.ID); l.State != broker.LeaseUnconfirmed || l.Upstream.Proof != broker.ProofExpired || len(x.up.Alive()) != 0 {
				t.Errorf("alive %v, lease %+v %+v", x.up.Alive(), l, l.Upstream)
			}
		})
		t.Run("ttl-only "+name, func(t *testing.T) {
			t.Parallel()
			x := skewed(t, by, brokertest.Party{Traits: provider.Traits{Revocability: provider.Revocability{Class: provider.ClassTTLOnly}}})
			s := x.Open(t, upSpec())
			id := minted(t, s, "up:a:read").LeaseID
			x.closed(t, s.Task.ID)
			x.soon(x.lease(t, id))
			x.turn(t, time.Minute, "settled", func() bool { return x.lease(t, id).State != broker.LeaseRevoking })
			if l := x.lease(t, id); l.Upstream.Proof != broker.ProofExpired || len(x.up.Alive()) != 0 {
				t.Errorf("alive %v, lease %+v %+v", x.up.Alive(), l, l.Upstream)
			}
		})
	}
	// Off by more than the credential's lifetime: the caller gets an error, and nothing remains.
	t.Run("far behind", func(t *testing.T) {
		t.Parallel()
		x := skewed(t, -24*time.Hour, brokertest.Party{})
		s := x.Open(t, upSpec())
		_, err := s.Ask(t, "up:a:read")
		kindOf(t, err, broker.Unavailable)
		x.settled(t, s.Task.ID)
		if alive := x.up.Alive(); len(alive) != 0 || x.up.Minted() != 1 {
			t.Errorf("minted %d, alive %v", x.up.Minted(), alive)
		}
	})
}

// The broker's clock jumps back: new revocations happen at once. A pending attempt waits for the
// clock, visibly; a retry by a person does not.
func TestFaultBrokersClockJumpsBack(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Probes: true}})
	x.Clock.Add(time.Hour) // since the keys were made
	now, later, retried := x.Open(t, upSpec()), x.Open(t, upSpec()), x.Open(t, upSpec())
	minted(t, now, "up:a:read")
	waits, asked := minted(t, later, "up:a:read").LeaseID, minted(t, retried, "up:a:read").LeaseID
	x.up.OnCall(brokertest.OpRevoke, func(n int) brokertest.Fault {
		if n < 2 {
			return brokertest.Error500
		}
		return ""
	})
	x.closed(t, later.Task.ID)
	x.closed(t, retried.Task.ID)
	eventually(t, "both failed", func() bool {
		return x.lease(t, waits).Upstream.Attempts == 1 && x.lease(t, asked).Upstream.Attempts == 1
	})
	x.Clock.Add(-10 * time.Minute)
	c := x.complete(t, now.Task.ID)
	if l := c.Credentials[0]; c.PendingRevocations != 0 || l.State != broker.LeaseRevoked || l.RevokedAt.After(x.Clock.Now()) || l.Upstream.DeadAt.Before(l.RevokedAt) {
		t.Errorf("pending %d, %+v %+v", c.PendingRevocations, l, l.Upstream)
	}
	if _, err := x.Broker.RetryLease(t.Context(), x.who(brokertest.Operator), asked); err != nil {
		t.Fatal(err)
	}
	x.settled(t, retried.Task.ID)
	if l := x.lease(t, waits); l.State != broker.LeaseRevoking || l.Upstream.NextAt.Sub(x.Clock.Now()) > 11*time.Minute || l.Upstream.LastError == "" {
		t.Errorf("waiting: %+v %+v", l, l.Upstream)
	}
	x.turn(t, time.Minute, "settled", func() bool { return x.lease(t, waits).State == broker.LeaseRevoked })
	if alive := x.up.Alive(); len(alive) != 0 {
		t.Errorf("alive %v", alive)
	}
}

// With a clock that was set back before the signing keys, nothing is signed. A task is still closed
// and the caller is told so; its receipt follows once the clock is right.
func TestFaultClockBehindTheKeysEndsTasks(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{idle: true})
	s := x.Open(t, upSpec())
	minted(t, s, "up:a:read")
	x.Clock.Add(-48 * time.Hour)
	c, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, 0)
	if err != nil || c.Task.State != broker.TaskClosed || c.PendingRevocations != 1 || c.Receipt != "" {
		t.Errorf("the end: %+v (%v)", c, err)
	}
	x.Clock.Add(48 * time.Hour)
	if _, jws, err := x.Broker.Receipt(t.Context(), x.who(brokertest.Runner), s.Task.ID); err != nil || jws == "" {
		t.Errorf("the receipt: %q (%v)", jws, err)
	}
}
