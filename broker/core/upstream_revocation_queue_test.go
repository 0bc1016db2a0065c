package core_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// closed completes a task without waiting for its providers.
func (x *third) closed(t *testing.T, taskID string) broker.Completion {
	t.Helper()
	c, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), taskID, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// turn advances the clock in steps until is holds. After each step the revocation queue does one
// complete round, so that the clock does not outrun a slow queue.
func (x *third) turn(t *testing.T, step time.Duration, what string, is func() bool) {
	t.Helper()
	for range 40 {
		start, looks, still := time.Now(), x.store.count("Take"), 0
		for still < 2 {
			if is() {
				return
			}
			if time.Since(start) > patience {
				t.Fatalf("the revocation queue does not finish: %s", what)
			}
			time.Sleep(40 * time.Millisecond)
			// Rounds of other replicas are not counted, and no queue calls a provider that is
			// paused.
			looked, waited := x.store.count("Take"), time.Since(start)
			if still++; waited < 1200*time.Millisecond || looked <= looks && waited < 6*time.Second ||
				looked > x.store.count("Take done") || x.Broker.UnderWay() > 0 {
				still = 0
			}
		}
		x.Clock.Add(step)
	}
	t.Errorf("never: %s", what)
}

// I3: a provider that fails for an hour is called again and again, visibly, and the credential is
// revoked as soon as it is back. Other tasks mint nothing there in that time, and own tokens are
// not affected.
//
//ebb:invariant I3 The revocation queue gives up on a credential only after the credential's own expiry
func TestRevocationQueueOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	for _, fault := range []brokertest.Fault{brokertest.Error500, brokertest.Garbage, brokertest.Hang, brokertest.Busy} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{Timeout: hangs, Traits: provider.Traits{Floor: 12 * time.Hour}}})
			s := x.Open(t, upSpec())
			tok := minted(t, s, "up:a:read")
			x.up.On(brokertest.OpRevoke, fault)
			c := x.closed(t, s.Task.ID)
			if c.PendingRevocations != 1 {
				t.Errorf("pending %d", c.PendingRevocations)
			}
			x.turn(t, 5*time.Minute, "six attempts", func() bool { return x.lease(t, tok.LeaseID).Upstream.Attempts >= 6 })
			l := x.lease(t, tok.LeaseID)
			if l.State != broker.LeaseRevoking || l.Upstream.LastError == "" || strings.Contains(l.Upstream.LastError, "canary") || !l.Upstream.DeadAt.IsZero() || !l.Upstream.NextAt.After(l.RevokedAt) {
				t.Errorf("during the outage: %+v %+v", l, l.Upstream)
			}
			x.Clock.Add(10 * time.Minute)
			found := false
			for _, d := range x.Broker.Ready(t.Context()) {
				found = found || d.Name == "pending_revocations" && d.Warning != "" && strings.Contains(d.Detail, "up 1 since")
			}
			if !found {
				t.Error("readiness does not tell")
			}
			x.up.On(brokertest.OpRevoke, "")
			x.turn(t, 5*time.Minute, "the end of the outage is noticed", func() bool { return x.lease(t, tok.LeaseID).State == broker.LeaseRevoked })
			if len(x.up.Alive()) != 0 {
				t.Error("alive at the provider")
			}
			stuck := 0
			for _, e := range entries(t, x.target, broker.EntryFilter{LeaseID: tok.LeaseID, Kind: audit.LeaseStuck}) {
				if stuck++; strings.Contains(string(e.Data), "canary") {
					t.Errorf("the provider's words are on the record: %s", e.Data)
				}
			}
			if stuck == 0 || stuck > 3 {
				t.Errorf("%d entries about attempts that failed", stuck)
			}
		})
	}
}

// A revocation that succeeds but is answered with an error is found to have succeeded.
func TestRevocationQueueRevokesButAnswersError(t *testing.T) {
	t.Parallel()
	for _, fault := range []brokertest.Fault{brokertest.DoneError, brokertest.DoneCut, brokertest.DoneHang} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{ByHandle: true, Timeout: hangs}})
			s := x.Open(t, upSpec())
			minted(t, s, "up:a:read")
			x.up.OnCall(brokertest.OpRevoke, func(n int) brokertest.Fault {
				if n < 2 {
					return fault
				}
				return ""
			})
			x.closed(t, s.Task.ID)
			x.turn(t, time.Minute, "settled", func() bool { return x.leases(t, s.Task.ID)[0].State == broker.LeaseRevoked })
			if l := x.leases(t, s.Task.ID)[0]; l.Upstream.Attempts != 2 || l.Upstream.Proof != broker.ProofConfirmed {
				t.Errorf("lease %+v", l.Upstream)
			}
		})
	}
}

// The broker never gives up before the credential's own expiry, reports it when it does, and never
// gives up a credential without an expiry.
//
//ebb:invariant I3 The revocation queue gives up on a credential only after the credential's own expiry
func TestRevocationQueueGivesUpOnlyTheDead(t *testing.T) {
	t.Parallel()
	for name, lasting := range map[string]bool{"expires": false, "lasting": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{Traits: provider.Traits{Lasting: lasting}}})
			s := x.Open(t, upSpec())
			tok := minted(t, s, "up:a:read")
			x.up.On(brokertest.OpRevoke, brokertest.Error500)
			x.closed(t, s.Task.ID)
			dies := x.lease(t, tok.LeaseID).Upstream.DiesAt
			if dies.IsZero() != lasting {
				t.Fatalf("dies at %s", dies)
			}
			if lasting {
				for range 5 {
					before := x.lease(t, tok.LeaseID).Upstream.Attempts
					x.Clock.Add(24 * time.Hour)
					eventually(t, "another attempt", func() bool { return x.lease(t, tok.LeaseID).Upstream.Attempts > before })
				}
				if l := x.lease(t, tok.LeaseID); l.State != broker.LeaseRevoking {
					t.Errorf("given up: %+v", l)
				}
				x.up.On(brokertest.OpRevoke, "")
				x.turn(t, 10*time.Minute, "revoked", func() bool { return x.lease(t, tok.LeaseID).State == broker.LeaseRevoked })
				return
			}
			x.turn(t, 5*time.Minute, "settled", func() bool { return x.lease(t, tok.LeaseID).State != broker.LeaseRevoking })
			l := x.lease(t, tok.LeaseID)
			if l.State != broker.LeaseUnconfirmed || l.Upstream.Proof != broker.ProofExpired || x.Clock.Now().Before(dies.Add(time.Minute)) {
				t.Errorf("given up at %s, it dies %s: %+v %+v", x.Clock.Now(), dies, l, l.Upstream)
			}
			if got := kindsOf(t, x.target, broker.EntryFilter{LeaseID: l.ID, Kind: audit.LeaseUnconfirmed}); len(got) != 1 {
				t.Errorf("on the record: %v", got)
			}
		})
	}
}

// An expired lease is revoked too: some providers let it live on.
func TestRevocationQueueTakesBackWhatExpired(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Traits: provider.Traits{Floor: time.Hour}}})
	s := x.Open(t, upSpec())
	tok := minted(t, s, "up:a:read")
	l := x.lease(t, tok.LeaseID)
	if got := l.Upstream.DiesAt.Sub(l.IssuedAt); got != time.Hour {
		t.Fatalf("dies after %s", got)
	}
	x.Clock.Add(l.ExpiresAt.Sub(x.Clock.Now()) + time.Second)
	eventually(t, "expired", func() bool { return x.lease(t, tok.LeaseID).State == broker.LeaseExpired })
	l = x.lease(t, tok.LeaseID)
	if len(x.up.Alive()) != 0 || l.Cause != broker.CauseExpired || !l.RevokedAt.Equal(l.ExpiresAt) || l.Upstream.Proof != broker.ProofConfirmed {
		t.Errorf("alive %v, lease %+v %+v", x.up.Alive(), l, l.Upstream)
	}
}

// Class eventual: accepted is not revoked. A probe shows it earlier than the bound; a provider that
// breaks its bound is called again.
func TestRevocationQueueEventual(t *testing.T) {
	t.Parallel()
	eventual := provider.Traits{Revocability: provider.Revocability{Class: provider.ClassEventual, Bound: time.Minute}, Floor: 12 * time.Hour}
	open := func(t *testing.T, probes bool) (*third, string, string) {
		x := thirdParty(t, shape{party: brokertest.Party{Traits: eventual, Probes: probes}})
		x.up.Lag = 20 * time.Second
		s := x.Open(t, upSpec())
		tok := minted(t, s, "up:a:read")
		x.closed(t, s.Task.ID)
		eventually(t, "accepted", func() bool { return !x.lease(t, tok.LeaseID).Upstream.AcceptedAt.IsZero() })
		if l := x.lease(t, tok.LeaseID); l.State != broker.LeaseRevoking || !l.Upstream.DeadAt.IsZero() {
			t.Errorf("accepted is not dead: %+v", l.Upstream)
		}
		return x, s.Task.ID, tok.LeaseID
	}
	t.Run("bound", func(t *testing.T) {
		t.Parallel()
		x, _, id := open(t, false)
		if l := x.lease(t, id); l.Upstream.NextAt.Sub(l.Upstream.AcceptedAt) != time.Minute {
			t.Errorf("looked at again after %s", l.Upstream.NextAt.Sub(l.Upstream.AcceptedAt))
		}
		x.Clock.Add(time.Minute)
		eventually(t, "revoked", func() bool { return x.lease(t, id).State == broker.LeaseRevoked })
		if l := x.lease(t, id); l.Upstream.Proof != broker.ProofBound || l.Upstream.Attempts != 0 {
			t.Errorf("lease %+v", l.Upstream)
		}
		if got := kindsOf(t, x.target, broker.EntryFilter{LeaseID: id, Kind: audit.LeaseAccepted}); len(got) != 1 {
			t.Errorf("on the record: %v", got)
		}
	})
	t.Run("probed", func(t *testing.T) {
		t.Parallel()
		x, _, id := open(t, true)
		x.turn(t, 7*time.Second, "revoked", func() bool { return x.lease(t, id).State == broker.LeaseRevoked })
		l := x.lease(t, id)
		if l.Upstream.Proof != broker.ProofProbed || l.Upstream.DeadAt.Sub(l.Upstream.AcceptedAt) >= time.Minute || l.Upstream.ProbedAt.IsZero() {
			t.Errorf("lease %+v", l.Upstream)
		}
	})
	// A provider whose probes have no result is probed until the bound has passed. That is no
	// failure of the provider: its breaker, and so its other credentials, are not affected.
	t.Run("nobody can tell", func(t *testing.T) {
		t.Parallel()
		x := thirdParty(t, shape{party: brokertest.Party{Traits: eventual, Probes: true}})
		x.up.On(brokertest.OpProbe, brokertest.Unsure)
		s, other := x.Open(t, upSpec()), x.Open(t, upSpec())
		id := minted(t, s, "up:a:read").LeaseID
		x.closed(t, s.Task.ID)
		eventually(t, "accepted", func() bool { return !x.lease(t, id).Upstream.AcceptedAt.IsZero() })
		x.turn(t, 6*time.Second, "asked more often than makes a provider count as down", func() bool { return x.up.Calls(brokertest.OpProbe) > 6 })
		second := minted(t, other, "up:a:read").LeaseID
		x.closed(t, other.Task.ID)
		eventually(t, "another is accepted at once", func() bool { return !x.lease(t, second).Upstream.AcceptedAt.IsZero() })
		x.turn(t, 10*time.Second, "revoked", func() bool { return x.lease(t, id).State == broker.LeaseRevoked })
		if l := x.lease(t, id); l.Upstream.Proof != broker.ProofBound || l.Upstream.Attempts != 0 || l.Upstream.LastError != "" {
			t.Errorf("lease %+v", l.Upstream)
		}
	})
	t.Run("broken promise", func(t *testing.T) {
		t.Parallel()
		x := thirdParty(t, shape{party: brokertest.Party{Traits: eventual, Probes: true}})
		x.up.Deaf = true
		s := x.Open(t, upSpec())
		id := minted(t, s, "up:a:read").LeaseID
		x.closed(t, s.Task.ID)
		x.turn(t, 20*time.Second, "told", func() bool {
			return strings.Contains(x.lease(t, id).Upstream.LastError, "still accepts")
		})
		if l := x.lease(t, id); l.State != broker.LeaseRevoking || len(x.up.Alive()) != 1 {
			t.Errorf("lease %+v", l)
		}
	})
}

// A provider that answers "revoked" and still accepts the credential is not believed.
func TestRevocationQueueBelievesProbesNotWords(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Probes: true}})
	x.up.Deaf = true
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	if c := x.closed(t, s.Task.ID); c.PendingRevocations != 1 {
		t.Errorf("pending %d", c.PendingRevocations)
	}
	eventually(t, "told", func() bool { return x.lease(t, id).Upstream.Attempts > 0 })
	if l := x.lease(t, id); l.State != broker.LeaseRevoking || !strings.Contains(l.Upstream.LastError, "still accepts") || l.Upstream.ProbedAt.IsZero() || !l.Upstream.AcceptedAt.IsZero() {
		t.Errorf("lease %+v", l.Upstream)
	}
}

// A probe without a result leaves the provider's answer as the proof, and no stronger one is
// claimed.
func TestRevocationQueueWithoutProbe(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Probes: true}})
	x.up.On(brokertest.OpProbe, brokertest.Error500)
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	x.closed(t, s.Task.ID)
	x.turn(t, time.Minute, "settled", func() bool { return x.lease(t, id).State == broker.LeaseRevoked })
	if l := x.lease(t, id); l.Upstream.Proof != broker.ProofConfirmed || x.up.Calls(brokertest.OpRevoke) != 1 {
		t.Errorf("revoked %d times, lease %+v", x.up.Calls(brokertest.OpRevoke), l.Upstream)
	}
}

// Class ttl-only: the provider is not called, and the credential counts as expired when its own
// expiry has passed on every clock.
func TestRevocationQueueTTLOnly(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{config: brokertest.Config{Policies: anything}, party: brokertest.Party{Traits: provider.Traits{Revocability: provider.Revocability{Class: provider.ClassTTLOnly}}}})
	s := x.Open(t, upSpec())
	l := x.lease(t, minted(t, s, "up:a:read").LeaseID)
	c := x.closed(t, s.Task.ID)
	if c.PendingRevocations != 1 {
		t.Errorf("pending %d", c.PendingRevocations)
	}
	eventually(t, "planned", func() bool { return x.lease(t, l.ID).Upstream.NextAt.Equal(l.Upstream.DiesAt.Add(time.Minute)) })
	x.Clock.Add(l.Upstream.DiesAt.Sub(x.Clock.Now()) + 59*time.Second)
	time.Sleep(1200 * time.Millisecond) // a round of the queue in which nothing may happen
	if got := x.lease(t, l.ID); got.State != broker.LeaseRevoking {
		t.Errorf("settled before its time: %+v", got)
	}
	x.Clock.Add(time.Second)
	eventually(t, "settled", func() bool { return x.lease(t, l.ID).State == broker.LeaseRevoked })
	if got := x.lease(t, l.ID); got.Upstream.Proof != broker.ProofExpired || x.up.Calls(brokertest.OpRevoke) != 0 {
		t.Errorf("%d revocations, lease %+v", x.up.Calls(brokertest.OpRevoke), got.Upstream)
	}
}

// I10: two replicas work on one database; each live credential is revoked once.
//
//ebb:invariant I10
func TestRevocationQueueReplicas(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Probes: true}, config: brokertest.Config{RealTime: true}})
	x.janitor(t, x.replica(t))
	s := x.Open(t, upSpec())
	for range 60 {
		minted(t, s, "up:a:read")
	}
	c := x.complete(t, s.Task.ID)
	if c.PendingRevocations != 0 || len(x.up.Alive()) != 0 {
		t.Fatalf("pending %d, alive %d", c.PendingRevocations, len(x.up.Alive()))
	}
	for _, l := range x.leases(t, s.Task.ID) {
		if n := x.up.Revocations(provider.Name(instance(x), l.ID)); n != 1 || l.Upstream.Proof != broker.ProofProbed {
			t.Errorf("lease %s was ended %d times: %+v", l.ID, n, l.Upstream)
		}
		if n := len(entries(t, x.target, broker.EntryFilter{LeaseID: l.ID, Kind: audit.LeaseDead})); n != 1 {
			t.Errorf("%d records of one end", n)
		}
	}
	if n := x.up.Calls(brokertest.OpRevoke); n != 60 {
		t.Errorf("%d calls to revoke 60", n)
	}
}

// instance returns the broker's name at providers.
func instance(x *third) string {
	sum := sha256.Sum256([]byte(x.Issuer))
	return hex.EncodeToString(sum[:4])
}

// The sealing key is missing: this is visible, revocations wait, and it never counts as "nothing
// was minted". When the key is back, they complete.
func TestRevocationQueueWaitsForTheSealingKey(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{ByHandle: true, Traits: provider.Traits{Floor: 12 * time.Hour}}, idle: true})
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	x.closed(t, s.Task.ID)
	other := x.replica(t, func(c *core.Config) { c.Sealer = brokertest.Sealer(t, nil, x.Clock.Now) })
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = other.Run(ctx) })
	eventually(t, "told", func() bool { return strings.Contains(x.lease(t, id).Upstream.LastError, "sealing key") })
	if l := x.lease(t, id); l.State != broker.LeaseRevoking || len(x.up.Alive()) != 1 || x.up.Calls(brokertest.OpRevoke) != 0 {
		t.Errorf("without the key: %+v", l)
	}
	stop()
	running.Wait()
	x.janitor(t, x.Broker)
	x.turn(t, 5*time.Minute, "revoked", func() bool { return x.lease(t, id).State == broker.LeaseRevoked })
	if len(x.up.Alive()) != 0 {
		t.Error("alive at the provider")
	}
}

// Without a sealing key nothing is minted, because the handle could not be stored.
func TestUpstreamMintNeedsTheSealingKey(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{idle: true, config: brokertest.Config{Sealer: noKey{}}})
	s := x.Open(t, upSpec())
	_, err := s.Ask(t, "up:a:read")
	kindOf(t, err, broker.Unavailable)
	if len(x.leases(t, s.Task.ID)) != 0 || x.up.Calls(brokertest.OpMint) != 0 {
		t.Error("something was begun")
	}
	for _, d := range x.Broker.Ready(t.Context()) {
		if d.Name == "sealing_key" && d.Err == nil && d.Warning != "" {
			return
		}
	}
	t.Error("readiness does not say so")
}

type noKey struct{}

func (noKey) Seal(string, secret.Secret) (string, error) { return "", errors.New("no key") }
func (noKey) Open(string, string) (secret.Secret, error) {
	return secret.Secret{}, errors.New("no key")
}
func (noKey) KeyID() string { return "" }
func (noKey) Err() error    { return errors.New("no key") }

// A person may end a pending revocation, with a reason; the claim of a replica that works on it
// ends.
func TestRetryAndForce(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Traits: provider.Traits{Lasting: true}}})
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	own := minted(t, s, "orders:eu/1:read").LeaseID
	ops := x.who(brokertest.Operator)
	_, err := x.Broker.ForceLease(t.Context(), ops, id, "looked")
	kindOf(t, err, broker.Conflict) // live
	x.up.On(brokertest.OpRevoke, brokertest.Error500)
	x.closed(t, s.Task.ID)
	eventually(t, "tried", func() bool { return x.lease(t, id).Upstream.Attempts > 0 })

	_, err = x.Broker.RetryLease(t.Context(), x.who(brokertest.Runner), id)
	kindOf(t, err, broker.Forbidden)
	_, err = x.Broker.ForceLease(t.Context(), x.who(brokertest.Auditor), id, "looked")
	kindOf(t, err, broker.Forbidden)
	for _, reason := range []string{"", "a\x1bb", strings.Repeat("x", 501)} {
		_, err = x.Broker.ForceLease(t.Context(), ops, id, reason)
		kindOf(t, err, broker.Invalid)
	}
	_, err = x.Broker.ForceLease(t.Context(), ops, own, "looked")
	kindOf(t, err, broker.Conflict)

	before := x.lease(t, id).Upstream.Attempts
	if _, err := x.Broker.RetryLease(t.Context(), ops, id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another attempt without the clock", func() bool { return x.lease(t, id).Upstream.Attempts > before })
	if es := entries(t, x.target, broker.EntryFilter{LeaseID: id, Kind: audit.LeaseRetried}); len(es) != 1 || es[0].Actor != brokertest.Operator {
		t.Errorf("the actor is not in the audit log: %v", es)
	}
	l, err := x.Broker.ForceLease(t.Context(), ops, id, "The role was dropped by hand.")
	if err != nil || l.State != broker.LeaseUnconfirmed || l.Upstream.Proof != broker.ProofForced || !l.Upstream.DeadAt.IsZero() {
		t.Fatalf("forced: %+v %+v (%v)", l, l.Upstream, err)
	}
	_, err = x.Broker.ForceLease(t.Context(), ops, id, "again")
	kindOf(t, err, broker.Conflict)
	_, err = x.Broker.RetryLease(t.Context(), ops, id)
	kindOf(t, err, broker.Conflict)
	es := entries(t, x.target, broker.EntryFilter{LeaseID: id, Kind: audit.LeaseForced})
	if len(es) != 1 || es[0].Actor != brokertest.Operator || !strings.Contains(string(es[0].Data), "dropped by hand") {
		t.Errorf("on the record: %v", es)
	}
}

// I8: neither a token nor a handle is in a log, in the audit log, or in the database.
//
//ebb:invariant I8 The revocation handle of a credential is encrypted (sealed) before it is written to the database
func TestUpstreamSecretsStayInside(t *testing.T) {
	t.Parallel()
	var logs attesttest.Log
	x := thirdParty(t, shape{
		party:  brokertest.Party{ByHandle: true, Probes: true},
		config: brokertest.Config{Logger: slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))},
	})
	s := x.Open(t, upSpec())
	for i, fault := range []brokertest.Fault{"", brokertest.DoneError, brokertest.DoneCut, brokertest.Garbage} {
		x.up.On(brokertest.OpMint, fault)
		if _, err := s.Ask(t, "up:a:read"); (err == nil) != (i == 0) {
			t.Errorf("%s: %v", fault, err)
		}
	}
	x.up.OnCall(brokertest.OpRevoke, func(n int) brokertest.Fault {
		if n < 4 {
			return brokertest.Error500
		}
		return ""
	})
	x.closed(t, s.Task.ID)
	x.turn(t, time.Minute, "settled", func() bool {
		for _, l := range x.leases(t, s.Task.ID) {
			if l.State == broker.LeaseRevoking {
				return false
			}
		}
		return true
	})
	var record strings.Builder
	for _, e := range entries(t, x.target, broker.EntryFilter{}) {
		record.Write(e.Data)
	}
	for name, text := range map[string]string{"the record": record.String(), "the database": files(t, x.dir), "the log": logs.String()} {
		for _, secret := range []string{"tok-", "hdl-"} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s holds %q: ...%s...", name, secret, text[max(i-60, 0):min(i+60, len(text))])
			}
		}
	}
}

// files returns the bytes of all files of a directory.
func files(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no files in %s (%v)", dir, err)
	}
	for _, path := range list {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(raw)
	}
	return out.String()
}
