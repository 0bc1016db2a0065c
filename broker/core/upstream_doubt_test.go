package core_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/clock"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
)

var everyClass = map[string]provider.Revocability{
	"instant":  {Class: provider.ClassInstant},
	"eventual": {Class: provider.ClassEventual, Bound: 10 * time.Second},
	"ttl-only": {Class: provider.ClassTTLOnly},
}

// revoking mints a credential, ends its task and returns the id of the lease.
func (x *third) revoking(t *testing.T) string {
	t.Helper()
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	x.closed(t, s.Task.ID)
	return id
}

// I3: a credential that its provider accepts beyond the named expiry is not expired, by any clock:
// its revocation stays pending, visibly, until a probe is refused.
func TestRevocationQueueBelievesProbesNotClocks(t *testing.T) {
	t.Parallel()
	for name, class := range everyClass {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{Probes: true, Traits: provider.Traits{Revocability: class}, Shape: func(c *provider.Credential) { c.DiesAt = c.ExpiresAt }}, config: brokertest.Config{Policies: anything}})
			x.up.Deaf, x.up.Life = true, 1000*time.Hour
			s := x.Open(t, upSpec())
			tok := minted(t, s, "up:a:read")
			x.closed(t, s.Task.ID)
			lease := func() broker.Lease { return x.lease(t, tok.LeaseID) }
			told := func() bool { return strings.Contains(lease().Upstream.LastError, "after its own expiry") }
			x.turn(t, 5*time.Minute, "told, or given up", func() bool { return told() || lease().State != broker.LeaseRevoking })
			still := func(when string) {
				t.Helper()
				l := lease()
				r, _, err := x.Broker.Receipt(t.Context(), x.who(brokertest.Auditor), s.Task.ID)
				if l.State != broker.LeaseRevoking || l.Upstream.Proof != "" || !l.Upstream.DeadAt.IsZero() || err != nil || r.Complete {
					t.Fatalf("%s it is %s, proof %q, dead at %s, receipt complete %v (%v); the provider accepts it: %v",
						when, l.State, l.Upstream.Proof, l.Upstream.DeadAt, r.Complete, err, x.up.Accepts(tok.Token.Reveal()))
				}
			}
			still("seen alive")
			l := lease()
			if wait := l.Upstream.NextAt.Sub(x.Clock.Now()); wait <= 0 || wait > 5*time.Minute {
				t.Errorf("looked at again in %s", wait)
			}
			stuck := entries(t, x.target, broker.EntryFilter{LeaseID: l.ID, Kind: audit.LeaseStuck})
			if n := len(stuck); n == 0 || !strings.Contains(string(stuck[n-1].Data), "after its own expiry") {
				t.Errorf("on the record: %+v", stuck)
			}

			// The result of an earlier probe is not forgotten when later probes have no result.
			for _, fault := range []brokertest.Fault{brokertest.Error500, brokertest.Unsure} {
				x.up.On(brokertest.OpProbe, fault)
				before := lease().Upstream.Attempts
				x.turn(t, 5*time.Minute, "two more attempts", func() bool { return lease().Upstream.Attempts >= before+2 || lease().State != broker.LeaseRevoking })
				still(string(fault))
			}
			x.up.On(brokertest.OpRevoke, brokertest.Error500)
			before := lease().Upstream.Attempts
			x.turn(t, 5*time.Minute, "two more attempts", func() bool { return lease().Upstream.Attempts >= before+2 || lease().State != broker.LeaseRevoking })
			still("when nothing works")

			x.up.On(brokertest.OpRevoke, "")
			x.up.On(brokertest.OpProbe, "")
			x.Clock.Add(1001 * time.Hour) // now it has expired at the provider as well
			x.turn(t, 5*time.Minute, "settled", func() bool { return lease().State != broker.LeaseRevoking })
			if l := lease(); l.Upstream.Proof != broker.ProofProbed || len(x.up.Alive()) != 0 {
				t.Errorf("lease %+v", l.Upstream)
			}
		})
	}
}

// A provider that accepted a revoked credential is not trusted again, nor is its bound, when its
// probes have no result any more.
func TestRevocationQueueDoesNotBelieveWhoLied(t *testing.T) {
	t.Parallel()
	for name, class := range map[string]provider.Revocability{
		"instant":  {Class: provider.ClassInstant},
		"eventual": {Class: provider.ClassEventual, Bound: 10 * time.Second},
	} {
		for _, fault := range []brokertest.Fault{brokertest.Error500, brokertest.Unsure} {
			t.Run(name+" "+string(fault), func(t *testing.T) {
				t.Parallel()
				x := thirdParty(t, shape{party: brokertest.Party{Probes: true, Traits: provider.Traits{Revocability: class, Floor: 12 * time.Hour}}})
				x.up.Deaf = true
				id := x.revoking(t)
				lease := func() broker.Lease { return x.lease(t, id) }
				x.turn(t, 20*time.Second, "caught", func() bool { return lease().Upstream.Attempts > 0 })
				x.up.On(brokertest.OpProbe, fault)
				x.turn(t, 3*time.Minute, "asked again and again", func() bool {
					return x.up.Calls(brokertest.OpProbe) > 6 || lease().State != broker.LeaseRevoking
				})
				if l := lease(); l.State != broker.LeaseRevoking || l.Upstream.Proof != "" || l.Upstream.LastError == "" {
					t.Fatalf("lease %s %+v; the provider accepts %v", l.State, l.Upstream, x.up.Alive())
				}
				x.up.On(brokertest.OpProbe, "")
				asked := x.up.Calls(brokertest.OpProbe) // the last of these may be in progress, with the fault
				x.turn(t, 3*time.Minute, "asked without the fault", func() bool { return x.up.Calls(brokertest.OpProbe) > asked+1 })
				x.Clock.Add(12 * time.Hour) // expired at the provider
				x.turn(t, 3*time.Minute, "settled", func() bool { return lease().State != broker.LeaseRevoking })
				if l := lease(); l.Upstream.Proof != broker.ProofProbed {
					t.Errorf("lease %s %+v", l.State, l.Upstream)
				}
			})
		}
	}
}

// If a credential expires during a probe that fails, the queue probes once more. The provider accepted
// the credential after reporting it as revoked, so its expiry alone proves nothing.
//
//ebb:invariant I3 A credential whose expiry passes during a provider call that fails is not settled by that expiry
func TestRevocationQueueExpiryDuringACall(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Probes: true, Traits: provider.Traits{Floor: 12 * time.Hour}}})
	x.up.Deaf = true
	id := x.revoking(t)
	x.turn(t, 20*time.Second, "caught", func() bool { return x.lease(t, id).Upstream.Attempts > 0 })
	x.up.OnCall(brokertest.OpProbe, func(n int) brokertest.Fault {
		if n > 0 {
			return ""
		}
		x.Clock.Add(13 * time.Hour)
		return brokertest.Error500
	})
	x.turn(t, 3*time.Minute, "settled", func() bool { return x.lease(t, id).State != broker.LeaseRevoking })
	if l := x.lease(t, id); l.State != broker.LeaseRevoked || l.Upstream.Proof != broker.ProofProbed {
		t.Errorf("lease %s %+v", l.State, l.Upstream)
	}
}

// If the bound of a revocation that takes effect later passes during a probe that fails, the queue probes once more.
//
//ebb:invariant I3 A credential whose revocation bound passes during a provider call that fails is not settled by that bound
func TestRevocationQueueBoundDuringACall(t *testing.T) {
	t.Parallel()
	eventual := provider.Revocability{Class: provider.ClassEventual, Bound: 10 * time.Second}
	x := thirdParty(t, shape{party: brokertest.Party{Probes: true, Traits: provider.Traits{Revocability: eventual, Floor: 12 * time.Hour}}})
	x.up.Deaf = true
	x.up.OnCall(brokertest.OpProbe, func(n int) brokertest.Fault {
		if n > 0 {
			return ""
		}
		x.Clock.Add(11 * time.Second)
		return brokertest.Error500
	})
	id := x.revoking(t)
	x.turn(t, 2*time.Second, "caught", func() bool { l := x.lease(t, id); return l.Upstream.Attempts > 0 || l.State != broker.LeaseRevoking })
	if l := x.lease(t, id); l.State != broker.LeaseRevoking || x.up.Calls(brokertest.OpProbe) < 2 {
		t.Errorf("after %d probes the lease is %s, proof %q; the provider accepts %v", x.up.Calls(brokertest.OpProbe), l.State, l.Upstream.Proof, x.up.Alive())
	}
}

// If the clock was ahead when a call began, and is set back during the call, the expiry has not passed.
//
//ebb:invariant I3 The revocation queue does not give up on a credential that had expired only according to a clock that was set back during the provider call
func TestRevocationQueueClockSetBackDuringACall(t *testing.T) {
	t.Parallel()
	for op, class := range map[string]provider.Revocability{
		brokertest.OpRevoke: {Class: provider.ClassInstant},
		brokertest.OpProbe:  {Class: provider.ClassTTLOnly},
	} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{Probes: true, Traits: provider.Traits{Revocability: class, Floor: 12 * time.Hour}}, config: brokertest.Config{Policies: anything}})
			s := x.Open(t, upSpec())
			id := minted(t, s, "up:a:read").LeaseID
			x.Clock.Add(13 * time.Hour)
			back := make(chan struct{})
			x.up.OnCall(op, func(n int) brokertest.Fault {
				if n == 0 {
					x.Clock.Jump(-13 * time.Hour)
					close(back)
				}
				return brokertest.Error500
			})
			x.closed(t, s.Task.ID)
			<-back
			eventually(t, "planned", func() bool {
				l := x.lease(t, id)
				return l.Upstream.NextAt.After(x.Clock.Now()) || l.State != broker.LeaseRevoking
			})
			if l := x.lease(t, id); l.State != broker.LeaseRevoking {
				t.Errorf("lease %s %+v; the provider accepts %v", l.State, l.Upstream, x.up.Alive())
			}
		})
	}
}

// looked waits until the queue has looked for due leases by the present clock.
func (x *third) looked(t *testing.T) {
	t.Helper()
	before := x.store.count("Take done") // the first look may have begun before
	eventually(t, "two looks", func() bool { return x.store.count("Take done") > before+1 })
}

// ahead sets the clock 48 hours ahead and waits until the jump has settled.
func (x *third) ahead(t *testing.T) {
	t.Helper()
	x.Clock.Jump(48 * time.Hour)
	x.looked(t)
	x.Clock.Add(clock.Settles)
	x.looked(t)
}

// ebb does not accept a jump ahead for 3 minutes. Until then no revocation is due by the new time.
//
//ebb:invariant I12 A clock that jumps ahead does not make the revocation queue call a provider without pause
func TestRevocationQueueClockAhead(t *testing.T) {
	t.Parallel()
	for name, class := range everyClass {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{Probes: true, Traits: provider.Traits{Revocability: class}}, config: brokertest.Config{Policies: anything}})
			x.up.Deaf = true
			id := x.revoking(t)
			eventually(t, "planned", func() bool { return x.lease(t, id).Upstream.NextAt.After(x.Clock.Now()) })
			right, probes := x.Clock.Now(), x.up.Calls(brokertest.OpProbe)
			x.Clock.Jump(48 * time.Hour)
			x.looked(t)
			if l, n := x.lease(t, id), x.up.Calls(brokertest.OpProbe); l.State != broker.LeaseRevoking || n != probes || !l.Upstream.NextAt.After(right) || l.Upstream.NextAt.After(right.Add(time.Hour)) {
				t.Errorf("after %d probes, %d before, the lease is %s: %+v", n, probes, l.State, l.Upstream)
			}
			x.turn(t, time.Minute, "settled", func() bool { return x.lease(t, id).State != broker.LeaseRevoking })
		})
	}
}

// A clock that jumps ahead and returns ends no live credential.
//
//ebb:invariant I4 ebb revokes no credential that has expired only by a clock that jumps ahead and returns
func TestRevocationQueueLiveWhileTheClockIsAhead(t *testing.T) {
	t.Parallel()
	for name, class := range everyClass {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{Traits: provider.Traits{Revocability: class}}, config: brokertest.Config{Policies: anything}})
			id := minted(t, x.Open(t, upSpec()), "up:a:read").LeaseID
			x.Clock.Jump(48 * time.Hour)
			x.looked(t)
			x.Clock.Jump(-48 * time.Hour)
			x.looked(t)
			if l := x.lease(t, id); l.State != broker.LeaseLive || len(x.up.Alive()) != 1 {
				t.Errorf("lease %s %+v; the provider accepts %v", l.State, l.Upstream, x.up.Alive())
			}
		})
	}
}

// When a clock that was ahead for long is set right, no attempt waits for a time that was planned before.
//
//ebb:invariant I2 A clock that was ahead and is set right postpones no pending revocation by more than 12 minutes
func TestRevocationQueueClockGlitch(t *testing.T) {
	t.Parallel()
	for name, class := range everyClass {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if class.Class == provider.ClassEventual {
				class.Bound = 100 * time.Hour // does not pass in this test
			}
			x := thirdParty(t, shape{party: brokertest.Party{Probes: true, Traits: provider.Traits{Revocability: class}, Shape: func(c *provider.Credential) { c.DiesAt = c.ExpiresAt }}, config: brokertest.Config{Policies: anything}})
			x.up.Deaf, x.up.Life = true, 1000*time.Hour
			id := x.revoking(t)
			up := func() broker.Upstream { return *x.lease(t, id).Upstream }
			eventually(t, "planned", func() bool { return up().NextAt.After(x.Clock.Now()) })
			x.up.On(brokertest.OpProbe, brokertest.Error500)
			x.ahead(t)
			eventually(t, "planned by the clock ahead", func() bool { return up().NextAt.After(x.Clock.Now()) })
			x.Clock.Jump(-48 * time.Hour)
			eventually(t, "planned again", func() bool { return up().NextAt.Before(x.Clock.Now().Add(11 * time.Minute)) })
			if l := x.lease(t, id); l.State != broker.LeaseRevoking {
				t.Errorf("lease %s %+v", l.State, l.Upstream)
			}
		})
	}
}

// After a start, no attempt waits for a time that an earlier process planned by a clock that was ahead.
//
//ebb:invariant I2 An attempt that was planned by a clock that was ahead postpones no pending revocation by more than 12 minutes after a start
func TestRevocationQueuePlannedBeforeAStart(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{idle: true, party: brokertest.Party{Traits: provider.Traits{Floor: 1000 * time.Hour}}})
	x.up.On(brokertest.OpRevoke, brokertest.Error500)
	id := x.revoking(t)
	planned := func() time.Duration { return x.lease(t, id).Upstream.NextAt.Sub(x.Clock.Now()) }
	x.Clock.Jump(48 * time.Hour)
	stop := running(t, x.replica(t))
	eventually(t, "planned by the clock ahead", func() bool { return planned() > 0 })
	stop()
	x.Clock.Jump(-48 * time.Hour)
	if planned() < 48*time.Hour {
		t.Fatalf("planned in %s", planned())
	}
	running(t, x.replica(t))
	eventually(t, "planned again", func() bool { return planned() < 11*time.Minute })
}

// An attempt that is planned while the clock is ahead may be written after the clock has returned and the other
// attempts are rescheduled.
//
//ebb:invariant I2 An attempt that was planned by a clock that was ahead postpones no pending revocation by more than 12 minutes, also if the plan is written after the clock has returned
func TestRevocationQueuePlanWrittenLate(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{})
	x.up.On(brokertest.OpRevoke, brokertest.Error500)
	writing, proceed := make(chan struct{}), make(chan struct{})
	x.store.on(audit.LeaseStuck, sync.OnceValue(func() error { // the first attempt
		close(writing)
		<-proceed
		return nil
	}))
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	planned := func() time.Duration { return x.lease(t, id).Upstream.NextAt.Sub(x.Clock.Now()) }
	x.ahead(t)
	x.closed(t, s.Task.ID)
	<-writing
	x.Clock.Jump(-48 * time.Hour)
	before := x.store.count("DueBy done") // the first call may have begun before the jump
	eventually(t, "the other plans are corrected", func() bool { return x.store.count("DueBy done") > before+1 })
	close(proceed)
	eventually(t, "planned by the clock ahead", func() bool { return planned() > 11*time.Minute })
	eventually(t, "planned again", func() bool { return planned() < 11*time.Minute })
}

// If the provider accepted the revocation while the clock was ahead, the queue revokes again when the
// clock is back, because the bound of that revocation would end too late.
//
//ebb:invariant I2 A revocation that was accepted while the clock was ahead is repeated when the clock is back
func TestRevocationQueueAcceptedByTheClockAhead(t *testing.T) {
	t.Parallel()
	eventual := provider.Revocability{Class: provider.ClassEventual, Bound: 10 * time.Second}
	x := thirdParty(t, shape{party: brokertest.Party{Probes: true, Traits: provider.Traits{Revocability: eventual, Floor: 12 * time.Hour}}})
	x.up.Deaf = true
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	x.Clock.Jump(48 * time.Hour)
	x.up.On(brokertest.OpProbe, brokertest.Error500)
	x.closed(t, s.Task.ID)
	eventually(t, "accepted", func() bool { return !x.lease(t, id).Upstream.AcceptedAt.IsZero() })
	x.up.On(brokertest.OpProbe, "")
	x.up.Deaf = false
	x.Clock.Jump(-48 * time.Hour)
	x.turn(t, time.Minute, "settled", func() bool { return x.lease(t, id).State != broker.LeaseRevoking })
	if l, n := x.lease(t, id), x.up.Calls(brokertest.OpRevoke); n < 2 || l.Upstream.Proof != broker.ProofProbed || len(x.up.Alive()) != 0 {
		t.Errorf("after %d calls to revoke the lease is %s, proof %q; the provider accepts %v", n, l.State, l.Upstream.Proof, x.up.Alive())
	}
}

// If the clock jumps ahead during a mint, the credential is revoked, and its lease does not count as expired.
//
//ebb:invariant I3 A credential that is not delivered because the clock jumped ahead during its mint is revoked, not recorded as expired
func TestRevocationQueueClockAheadDuringAMint(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Probes: true}})
	s := x.Open(t, upSpec())
	x.up.OnCall(brokertest.OpMint, func(int) brokertest.Fault {
		x.Clock.Jump(48 * time.Hour)
		return ""
	})
	if _, err := s.Ask(t, "up:a:read"); err == nil {
		t.Error("a credential was issued")
	}
	x.Clock.Jump(-48 * time.Hour)
	id := x.leases(t, s.Task.ID)[0].ID
	eventually(t, "settled", func() bool { return x.lease(t, id).State.Final() })
	if l := x.lease(t, id); l.State != broker.LeaseRevoked || len(x.up.Alive()) != 0 {
		t.Errorf("lease %s %+v; the provider accepts %v", l.State, l.Upstream, x.up.Alive())
	}
}

// A driver may omit the call for a credential that has expired. A clock that is ahead is no evidence of expiry.
//
//ebb:invariant I3 A driver does not omit the revocation of a credential that has expired only by a clock that is ahead
func TestRevocationQueueDriverByTheClockAhead(t *testing.T) {
	t.Parallel()
	for name, class := range everyClass {
		if class.Class == provider.ClassTTLOnly {
			continue // it is not revoked
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{ByClock: true, Probes: true, Traits: provider.Traits{Revocability: class}, Shape: func(c *provider.Credential) { c.DiesAt = c.ExpiresAt }}})
			x.up.Life = 1000 * time.Hour
			s := x.Open(t, upSpec())
			id := minted(t, s, "up:a:read").LeaseID
			x.Clock.Jump(48 * time.Hour)
			x.closed(t, s.Task.ID)
			x.turn(t, 5*time.Minute, "settled", func() bool { return x.lease(t, id).State != broker.LeaseRevoking })
			if l := x.lease(t, id); len(x.up.Alive()) != 0 {
				t.Errorf("lease %s %+v; the provider accepts %v", l.State, l.Upstream, x.up.Alive())
			}
		})
	}
}

// If the provider accepted the revocation while the clock was behind, the bound counts from the latest possible
// time of acceptance.
//
//ebb:invariant I3 A revocation that was accepted while the clock was behind counts as effective only after its whole bound, also after the clock is set right
func TestRevocationQueueAcceptedByTheClockBehind(t *testing.T) {
	t.Parallel()
	eventual := provider.Revocability{Class: provider.ClassEventual, Bound: 10 * time.Minute}
	for proof, probes := range map[broker.Proof]bool{broker.ProofBound: false, broker.ProofProbed: true} {
		t.Run(string(proof), func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{ByClock: true, Probes: probes, Traits: provider.Traits{Revocability: eventual, Floor: 12 * time.Hour}}})
			s := x.Open(t, upSpec())
			id := minted(t, s, "up:a:read").LeaseID
			up := func() broker.Upstream { return *x.lease(t, id).Upstream }
			right := x.Clock.Now()
			x.Clock.Jump(-time.Hour)
			x.closed(t, s.Task.ID)
			eventually(t, "accepted", func() bool { return !up().AcceptedAt.IsZero() })
			if at := up().AcceptedAt; at.Before(right) {
				t.Errorf("for a replica whose clock is right it was accepted at %s, before %s", at, right)
			}
			x.Clock.Jump(time.Hour)
			back := x.Clock.Now()
			eventually(t, "planned again", func() bool { return up().NextAt.After(back) || !up().DeadAt.IsZero() })
			x.turn(t, 5*time.Minute, "settled", func() bool { return x.lease(t, id).State != broker.LeaseRevoking })
			if l := x.lease(t, id); l.Upstream.Proof != proof || l.Upstream.DeadAt.Before(back.Add(10*time.Minute)) {
				t.Errorf("%s %s after the clock returned: %+v", l.State, l.Upstream.DeadAt.Sub(back), l.Upstream)
			}
		})
	}
}

// If a credential was minted while the clock was behind, its lifetime counts from the latest possible time of the
// mint.
//
//ebb:invariant I3 A credential that was minted while the clock was behind counts as expired only after its whole lifetime, also after the clock is set right
func TestRevocationQueueMintedByTheClockBehind(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Traits: provider.Traits{Revocability: provider.Revocability{Class: provider.ClassTTLOnly}, Floor: 20 * time.Minute}}, config: brokertest.Config{Policies: anything}})
	x.Clock.Add(time.Hour) // the signing key is older than the clock shows
	x.Clock.Jump(-10 * time.Minute)
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	x.Clock.Jump(10 * time.Minute)
	back := x.Clock.Now()
	x.closed(t, s.Task.ID)
	eventually(t, "planned", func() bool {
		l := x.lease(t, id)
		return l.Upstream.NextAt.After(back) || !l.Upstream.DeadAt.IsZero()
	})
	x.turn(t, 5*time.Minute, "settled", func() bool { return x.lease(t, id).State != broker.LeaseRevoking })
	if l := x.lease(t, id); l.Upstream.Proof != broker.ProofExpired || l.Upstream.DeadAt.Before(back.Add(20*time.Minute)) {
		t.Errorf("%s %s after the clock returned: %+v", l.State, l.Upstream.DeadAt.Sub(back), l.Upstream)
	}
}

// A probe while the clock is ahead of the expiry does not show that the credential outlived its expiry.
//
//ebb:invariant I3 A probe that found a credential accepted while the clock was ahead does not count as proof, after the clock has returned, that the credential outlived its expiry
func TestRevocationQueueProbedByTheClockAhead(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Probes: true, Shape: func(c *provider.Credential) { c.DiesAt = c.ExpiresAt }}})
	x.up.Deaf, x.up.Life = true, 1000*time.Hour
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	x.Clock.Jump(48 * time.Hour)
	x.closed(t, s.Task.ID)
	attempts := func() int { return x.lease(t, id).Upstream.Attempts }
	eventually(t, "an attempt", func() bool { return attempts() > 0 })
	x.up.On(brokertest.OpProbe, brokertest.Error500)
	x.up.On(brokertest.OpRevoke, brokertest.Error500)
	x.Clock.Jump(-48 * time.Hour)
	before := attempts()
	x.turn(t, 2*time.Minute, "another attempt", func() bool { return attempts() > before })
	if up := x.lease(t, id).Upstream; strings.Contains(up.LastError, "after its own expiry") {
		t.Errorf("%+v", up)
	}
	x.turn(t, 2*time.Minute, "given up", func() bool { return x.lease(t, id).State != broker.LeaseRevoking })
	if l := x.lease(t, id); l.Upstream.DeadAt.Before(l.Upstream.DiesAt) {
		t.Errorf("%s at %s, before it expires at %s", l.State, l.Upstream.DeadAt, l.Upstream.DiesAt)
	}
}

// A slow revocation does not weaken its proof: the provider's answer is accepted after the same
// number of probes.
func TestRevocationQueueCountsProbesNotFailures(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Probes: true, Traits: provider.Traits{Floor: 12 * time.Hour}}})
	x.up.OnCall(brokertest.OpRevoke, func(n int) brokertest.Fault {
		if n < 6 {
			return brokertest.Error500
		}
		return ""
	})
	x.up.On(brokertest.OpProbe, brokertest.Garbage)
	id := x.revoking(t)
	x.turn(t, 5*time.Minute, "settled", func() bool { return x.lease(t, id).State != broker.LeaseRevoking })
	l, n := x.lease(t, id), x.up.Calls(brokertest.OpProbe)
	if l.State != broker.LeaseRevoked || l.Upstream.Proof != broker.ProofConfirmed || n != 5 || l.Upstream.Attempts != 6+4 {
		t.Errorf("after %d probes and %d failures it is %s, proof %q", n, l.Upstream.Attempts, l.State, l.Upstream.Proof)
	}
}

// The same when the expiry passed before the provider accepted the revocation, whose bound then
// still ran: the credential was seen alive after its own expiry.
//
//ebb:invariant I3 The revocation queue never gives up on a credential that was accepted by its provider after the credential's own expiry
func TestRevocationQueueSawItOutliveItsExpiryWithinTheBound(t *testing.T) {
	t.Parallel()
	eventual := provider.Revocability{Class: provider.ClassEventual, Bound: time.Minute}
	x := thirdParty(t, shape{party: brokertest.Party{Probes: true, Traits: provider.Traits{Revocability: eventual}, Shape: func(c *provider.Credential) { c.DiesAt = c.ExpiresAt }}})
	x.up.Deaf, x.up.Life = true, 1000*time.Hour
	x.up.On(brokertest.OpRevoke, brokertest.Error500)
	id := x.revoking(t)
	lease := func() broker.Lease { return x.lease(t, id) }
	eventually(t, "asked", func() bool { return lease().Upstream.Attempts > 0 })
	x.up.On(brokertest.OpRevoke, "")
	x.Clock.Add(lease().Upstream.DiesAt.Sub(x.Clock.Now()) + time.Minute)
	x.turn(t, time.Second, "seen alive", func() bool { return !lease().Upstream.AcceptedAt.IsZero() && x.up.Calls(brokertest.OpProbe) > 0 })
	x.up.On(brokertest.OpProbe, brokertest.Error500)
	x.turn(t, 2*time.Minute, "asked beyond the bound", func() bool {
		return x.up.Calls(brokertest.OpProbe) > 2 || lease().State != broker.LeaseRevoking
	})
	if l := lease(); l.State != broker.LeaseRevoking || l.Upstream.Proof != "" {
		t.Fatalf("it is %s, proof %q; the provider accepts %v", l.State, l.Upstream.Proof, x.up.Alive())
	}
	x.up.On(brokertest.OpProbe, "")
	x.up.Deaf = false
	x.turn(t, 5*time.Minute, "settled", func() bool { return lease().State != broker.LeaseRevoking })
	if l := lease(); l.Upstream.Proof != broker.ProofProbed || len(x.up.Alive()) != 0 {
		t.Errorf("lease %s %+v", l.State, l.Upstream)
	}
}

// A mint that only reserved a handle made no usable credential: its proof is the provider's answer,
// and no probe is claimed.
func TestRevocationQueueProvesNothingOfWhatNobodyCanName(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{ByHandle: true, Probes: true}})
	s := x.Open(t, upSpec())
	x.up.On(brokertest.OpReserve, brokertest.Error500)
	_, err := s.Ask(t, "up:a:read")
	kindOf(t, err, broker.Unavailable)
	x.settled(t, s.Task.ID)
	if l := x.leases(t, s.Task.ID)[0]; l.State != broker.LeaseRevoked || l.Upstream.Proof != broker.ProofConfirmed || !l.Upstream.ProbedAt.IsZero() {
		t.Errorf("it is %s, proof %q, probed %s", l.State, l.Upstream.Proof, l.Upstream.ProbedAt)
	}
}
