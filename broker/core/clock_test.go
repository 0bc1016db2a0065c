package core_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/clock"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// clockLine returns the clock's line of /readyz.
func clockLine(t *testing.T, e *brokertest.Env) broker.Dependency {
	t.Helper()
	for _, d := range e.Broker.Ready(t.Context()) {
		if d.Name == "clock" {
			return d
		}
	}
	t.Fatal("/readyz does not name the clock")
	return broker.Dependency{}
}

// manyClaims makes the LiveStore remove its expired entries.
func manyClaims(t *testing.T, e *brokertest.Env) {
	t.Helper()
	for i := range 40 {
		_, _ = e.Config.LiveStore.Admit(t.Context(), broker.Admission{Claims: []broker.Claim{{Key: fmt.Sprint("c", i, e.Clock.Now()), Value: "1", Until: e.Clock.Now().Add(time.Minute)}}})
	}
}

// A mint is refused while the clock is a little ahead, too little for any task token to expire.
//
//ebb:invariant I4 No credential is issued while a forward jump of the clock has not settled
func TestClockAheadMintsNothing(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	e.Clock.Jump(10 * time.Minute)
	_, err := s.Ask(t, "orders:eu/1:read")
	if k := kindOf(t, err, broker.Unavailable); !strings.Contains(k.Public, "clock") || k.RetryAfter <= 0 {
		t.Errorf("%+v", k)
	}
	tok, err := e.Broker.PrincipalToken(t.Context(), e.Assertion(t, brokertest.Runner, e.Keys[brokertest.Runner]), e.Prove(t, e.Keys[brokertest.Runner]), "")
	if err != nil || !strings.HasPrefix(tok.API, "ends ") {
		t.Errorf("a token for the API: %q, %v", tok.API, err)
	}
	e.Clock.Jump(-10 * time.Minute)
	if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
		t.Error(err)
	}
}

// I2, I4, H60: the clock is 48 hours ahead for two seconds. In that time nothing is issued, and
// /readyz, the metric and the error name the reason. Afterwards everything works: no task was
// closed, no fresh proof is refused, and no replay is accepted.
//
//ebb:invariant I4 A brief forward jump of the clock closes no task, removes no replay claim, and causes no later refusal of a fresh proof
//ebb:invariant I4 No credential is issued while a forward jump of the clock has not settled
//ebb:invariant I4 `/readyz` reports a forward jump of the clock that has not settled
func TestClockAheadAndBack(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Heartbeat = 60
	s := e.Open(t, spec)
	used := s.Request(t, "orders:eu/1:read")
	tok, err := e.Broker.Token(t.Context(), used)
	if err != nil {
		t.Fatal(err)
	}
	e.Clock.Add(2 * time.Second)
	e.Clock.Jump(48 * time.Hour)
	e.Clock.Add(2 * time.Second)
	e.Broker.Round(t.Context())
	manyClaims(t, e)
	if _, err = s.Ask(t, "orders:eu/1:read"); err == nil {
		t.Error("a mint while the clock is ahead")
	}
	if e.Active(t, tok.Token.Reveal()) {
		t.Error("a token that has expired by the wall clock is active")
	}
	_, _, err = e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], spec)
	if k := kindOf(t, err, broker.Unavailable); !strings.Contains(k.Public, "clock") || k.RetryAfter <= 0 {
		t.Errorf("a task while the clock is ahead: %+v", k)
	}
	kindOf(t, e.Broker.SignedIn(t.Context(), e.Principals[brokertest.Operator], "link", e.Clock.Now()), broker.Unavailable)
	if d := clockLine(t, e); d.Err == nil || !strings.Contains(d.Warning, "48h") {
		t.Errorf("ahead: %+v", d)
	}
	metric := func() float64 {
		fs, _ := e.Registry.Gather()
		for _, f := range fs {
			if f.GetName() == "ebb_clock_jump_seconds" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return -1
	}
	if got := metric(); got != (48 * time.Hour).Seconds() {
		t.Errorf("the metric: %v", got)
	}
	if _, err := e.Broker.Beat(t.Context(), e.Principals[brokertest.Runner], s.Task.ID); err != nil {
		t.Errorf("a heartbeat while the clock is ahead: %v", err)
	}

	e.Clock.Jump(-48 * time.Hour)
	e.Broker.Round(t.Context())
	if d := clockLine(t, e); d.Err != nil || d.Warning != "" || metric() != 0 {
		t.Errorf("back: %+v, %v", d, metric())
	}
	if !e.Active(t, tok.Token.Reveal()) {
		t.Error("the clock's jump has ended a credential")
	}
	for range 3 {
		if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
			t.Errorf("a fresh proof: %v", err)
		}
	}
	_, err = e.Broker.Token(t.Context(), used)
	kindOf(t, err, broker.InvalidProof)
	e.Clock.Add(61 * time.Second) // the heartbeat of the jump counts only for its minute
	e.Broker.Round(t.Context())
	waitClosed(t, e, s.Task.ID, broker.CauseHeartbeat)
}

// A jump that lasts counts as the time: due tasks are closed. When the clock is corrected
// afterwards, fresh proofs are accepted at once, and proofs whose claims were removed are refused.
//
//ebb:invariant I4 `/readyz` reports a forward jump of the clock that has not settled
//ebb:invariant I4 After a fast clock is corrected, ebb refuses only proofs of the time spans whose replay claims were removed
func TestClockAheadForLong(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	e.Clock.Jump(12 * time.Hour)
	e.Broker.Round(t.Context())
	e.Clock.Add(clock.Settles)
	e.Broker.Round(t.Context())
	waitClosed(t, e, s.Task.ID, broker.CauseDeadline)
	long := brokertest.Spec()
	long.TTL = 24 * 3600
	s = e.Open(t, long)
	ahead := s.Request(t, "orders:eu/1:read")
	if _, err := e.Broker.Token(t.Context(), ahead); err != nil {
		t.Fatalf("a jump that lasted: %v", err)
	}
	e.Clock.Add(clock.Settles + time.Minute)
	manyClaims(t, e) // the proof's claim is removed
	e.Clock.Jump(-12 * time.Hour)
	e.Broker.Round(t.Context())
	if d := clockLine(t, e); d.Err != nil || d.Warning == "" {
		t.Errorf("set back: %+v", d)
	}
	fresh := e.Open(t, brokertest.Spec())
	for range 3 {
		if _, err := fresh.Ask(t, "orders:eu/1:read"); err != nil {
			t.Errorf("a fresh proof after the clock was set right: %v", err)
		}
	}
	e.Clock.Add(clock.Settles)
	if d := clockLine(t, e); d.Warning != "" {
		t.Errorf("settled: %+v", d)
	}
	e.Clock.Add(ahead.Possession.Proof.From.Add(time.Minute + time.Second).Sub(e.Clock.Now()))
	_, err := e.Broker.Token(t.Context(), ahead)
	if k := kindOf(t, err, broker.Unavailable); !strings.Contains(k.Public, "clock") {
		t.Errorf("a proof that was used 12 hours ago, by a clock that was ahead: %+v", k)
	}
}

// An audit log that is ahead of the clock, because ebb ran with a wrong one, blocks break-glass
// until no period is open and this clock has run for a while, not until the clock catches up.
//
//ebb:invariant I4 A clock that is behind the audit log disables break-glass only until no period is open and the clock has run for 3 minutes
func TestBreakGlassAfterARecordOfTheFuture(t *testing.T) {
	t.Parallel()
	x := glassHouse(t)
	x.Clock.Jump(48 * time.Hour)
	x.Clock.Add(clock.Settles)
	x.Broker.Round(t.Context())
	x.Clock.Add(clock.Settles)
	g := begun(t, x, "gil")
	x.Clock.Jump(-48 * time.Hour)
	x.Broker = restarted(t, x, func(*core.Config) {})
	if _, err := begin(t, x, "gil"); kind(err) != broker.Unavailable {
		t.Errorf("the record is ahead: %v", err)
	}
	if d := clockLine(t, x); d.Err != nil || !strings.Contains(d.Warning, "audit log") {
		t.Errorf("/readyz: %+v", d)
	}
	x.Broker.Round(t.Context())
	if !strings.Contains(endedBy(t, x, g.ID), `"clock"`) {
		t.Errorf("the open period continues: %s", endedBy(t, x, g.ID))
	}
	x.Clock.Add(clock.Settles)
	x.Broker.Round(t.Context())
	if _, err := begin(t, x, "gil"); err != nil {
		t.Errorf("after %s: %v", clock.Settles, err)
	}
}

// A revocation that is requested while the clock is ahead also ends credentials that have expired only by that clock.
//
//ebb:invariant I2 A revocation while the clock is ahead ends credentials that have expired only by that clock
func TestClockAheadRevokes(t *testing.T) {
	t.Parallel()
	for name, revoke := range map[string]func(x *target, parent, tok broker.Token) error{
		"by lease": func(x *target, _, tok broker.Token) error {
			_, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), tok.LeaseID, "leak")
			return err
		},
		"by token": func(x *target, _, tok broker.Token) error {
			who := x.who(brokertest.Operator)
			return x.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: &who}, tok.Token.Reveal())
		},
		"with its parent": func(x *target, parent, _ broker.Token) error {
			_, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), parent.LeaseID, "leak")
			return err
		},
		"when the database answers again": func(x *target, _, tok broker.Token) error {
			x.store.on(audit.LeaseRevoked, func() error { return errDown })
			if _, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), tok.LeaseID, "leak"); err == nil {
				return errors.New("acknowledged without the database")
			}
			x.store.on(audit.LeaseRevoked, nil)
			x.Broker.RetryEnds(t.Context())
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			s := x.Open(t, brokertest.Spec())
			parent := minted(t, s, "orders:eu/*:read")
			tok := narrowed(t, s, parent, "orders:eu/1:read")
			x.Clock.Jump(48 * time.Hour)
			if err := revoke(x, parent, tok); err != nil {
				t.Error(err)
			}
			x.Clock.Jump(-48 * time.Hour)
			if activeAt(t, x, x.Broker, tok.Token.Reveal()) || activeAt(t, x, x.replica(t), tok.Token.Reveal()) {
				t.Error("the token is active")
			}
		})
	}
}

// A poll while the clock is ahead does not expire the request: a person can still decide when the clock is back.
func TestClockAheadExpiresNoRequest(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/1:write")
	e.Clock.Jump(48 * time.Hour)
	_, err := s.Poll(t, p.DeferralCode.Reveal())
	kindOf(t, err, broker.Pending)
	e.Clock.Jump(-48 * time.Hour)
	approve(t, e, brokertest.Approver, p.RequestID, broker.Verdict{})
	_, err = s.Poll(t, p.DeferralCode.Reveal())
	kindOf(t, err, broker.SlowDown) // the last poll was in the future
	e.Clock.Add(time.Minute)
	if _, err := s.Poll(t, p.DeferralCode.Reveal()); err != nil {
		t.Error(err)
	}
}

// A token that was issued before the clock fell behind can be revoked as soon as the clock is set right.
func TestClockSetRightRevokes(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	tok := minted(t, x.Open(t, brokertest.Spec()), "orders:eu/1:read")
	x.Clock.Jump(-time.Hour)
	x.Broker.Round(t.Context())
	x.Clock.Add(clock.Settles)
	x.Broker.Round(t.Context())
	x.Clock.Jump(time.Hour)
	if !activeAt(t, x, x.Broker, tok.Token.Reveal()) {
		t.Error("the token is not active before its revocation")
	}
	who := x.who(brokertest.Operator)
	if err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: &who}, tok.Token.Reveal()); err != nil {
		t.Error(err)
	}
	if activeAt(t, x, x.Broker, tok.Token.Reveal()) || activeAt(t, x, x.replica(t), tok.Token.Reveal()) {
		t.Error("the token is active")
	}
}

// A denial as suspicious ends the task while the clock is ahead, even if the request has expired by that clock.
func TestClockAheadSuspicious(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Minute, 48 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{Probes: true}})
			spec := upSpec()
			spec.Ceiling = scopesOf("up:**:* orders:**:*")
			s := x.Open(t, spec)
			id := minted(t, s, "up:a:read").LeaseID
			p := pending(t, s, "orders:eu/1:write")
			x.Clock.Jump(by)
			if _, err := x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Code: broker.Suspicious}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "revoked at the provider", func() bool { return x.lease(t, id).State != broker.LeaseRevoking && len(x.up.Alive()) == 0 })
		})
	}
}
