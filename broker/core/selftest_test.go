package core_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provideradmin"
)

func steps(tr provideradmin.SelfTest) string {
	var out []string
	for _, s := range tr.Steps {
		verdict := "ok"
		if !s.OK {
			verdict = "bad"
		}
		out = append(out, s.Step+" "+verdict)
	}
	return strings.Join(out, ", ")
}

func instant() brokertest.Party {
	return brokertest.Party{Probes: true, Traits: provider.Traits{ThirdParty: true, Revocability: provider.Revocability{Class: provider.ClassInstant}}}
}

func TestSelfTestMintsProbesAndRevokes(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: instant()})
	operator := x.who(brokertest.Operator)
	tr, err := x.Broker.SelfTestProvider(t.Context(), operator, "up", provideradmin.SelfTestSpec{Scopes: scopesOf("up:a/b:read")})
	if err != nil || !tr.OK || steps(tr) != "setup ok, check ok, mint ok, alive ok, revoke ok" {
		t.Fatalf("a provider that works: %v, %s %+v", err, steps(tr), tr)
	}
	if alive := x.up.Alive(); len(alive) != 0 || x.up.Minted() != 1 {
		t.Errorf("%d minted, alive %v", x.up.Minted(), alive)
	}
	l := x.lease(t, tr.LeaseID)
	if l.State != broker.LeaseRevoked || l.Upstream.Proof != broker.ProofProbed {
		t.Errorf("the lease is %s, %+v", l.State, l.Upstream)
	}
	kinds := kindsOf(t, x.target, broker.EntryFilter{TaskID: tr.TaskID})
	for _, want := range []string{"task.opened", "lease.intended", "lease.issued", "task.closed"} {
		if !slices.Contains(kinds, want) {
			t.Errorf("%s is not on the record: %v", want, kinds)
		}
	}
	if tr, err := x.Broker.SelfTestProvider(t.Context(), operator, "up", provideradmin.SelfTestSpec{}); err != nil || steps(tr) != "setup ok" || x.up.Minted() != 1 {
		t.Errorf("without a scope: %v %+v", err, tr)
	}
}

// A probe that needs the handle gets the one of the mint, which no listing shows.
func TestSelfTestProbesByHandle(t *testing.T) {
	t.Parallel()
	party := instant()
	party.ByHandle = true
	x := thirdParty(t, shape{party: party})
	tr, err := x.Broker.SelfTestProvider(t.Context(), x.who(brokertest.Operator), "up", provideradmin.SelfTestSpec{Scopes: scopesOf("up:a/b:read")})
	if err != nil || !tr.OK || steps(tr) != "setup ok, check ok, mint ok, alive ok, revoke ok" {
		t.Fatalf("%v, %s %+v", err, steps(tr), tr)
	}
}

func TestSelfTestSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		op    string
		fault brokertest.Fault
		want  string
	}{
		"no mint":       {"mint", brokertest.Error500, "setup ok, check ok, mint bad, revoke ok"},
		"no revocation": {"revoke", brokertest.Error500, "setup ok, check ok, mint ok, alive ok, revoke bad"},
		"no probe":      {"probe", brokertest.Error500, "setup ok, check ok, mint ok, alive bad"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: instant()})
			x.up.On(c.op, c.fault)
			tr, err := x.Broker.SelfTestProvider(t.Context(), x.who(brokertest.Operator), "up", provideradmin.SelfTestSpec{Scopes: scopesOf("up:a/b:read")})
			if err != nil || tr.OK || !strings.HasPrefix(steps(tr), c.want) {
				t.Errorf("%v, %s", err, steps(tr))
			}
			for _, s := range tr.Steps {
				if !s.OK && s.Remedy == "" {
					t.Errorf("%+v has no remedy", s)
				}
			}
			x.up.On(c.op, "")
			x.Clock.Add(40 * time.Second) // past every back-off
			x.settled(t, tr.TaskID)
			if alive := x.up.Alive(); len(alive) != 0 {
				t.Errorf("orphans %v", alive)
			}
		})
	}
}

func TestSelfTestIsTheOperators(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: instant()})
	for _, role := range []string{brokertest.Runner, brokertest.Approver, brokertest.Auditor} {
		_, err := x.Broker.SelfTestProvider(t.Context(), x.who(role), "up", provideradmin.SelfTestSpec{Scopes: scopesOf("up:a/b:read")})
		kindOf(t, err, broker.Forbidden)
	}
	operator := x.who(brokertest.Operator)
	_, err := x.Broker.SelfTestProvider(t.Context(), operator, "nope", provideradmin.SelfTestSpec{})
	kindOf(t, err, broker.NotFound)
	_, err = x.Broker.SelfTestProvider(t.Context(), operator, "orders", provideradmin.SelfTestSpec{})
	kindOf(t, err, broker.NotFound)
	for _, ttl := range []broker.Seconds{-1, 1, 9, 3601, 1 << 60} {
		_, err = x.Broker.SelfTestProvider(t.Context(), operator, "up", provideradmin.SelfTestSpec{TTL: ttl, Scopes: scopesOf("up:a:read")})
		kindOf(t, err, broker.Invalid)
	}
	for _, set := range []string{"orders:a:read", "up:a:read orders:a:read"} {
		_, err = x.Broker.SelfTestProvider(t.Context(), operator, "up", provideradmin.SelfTestSpec{Scopes: scopesOf(set)})
		kindOf(t, err, broker.InvalidScope)
	}
	if x.up.Minted() != 0 {
		t.Error("something was minted")
	}
}
