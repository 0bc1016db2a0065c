package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/oidc"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// sso returns an issuer of people (or of workloads) and its attestor.
func sso(t *testing.T, at time.Time) (*attesttest.Issuer, *attesttest.Clock, map[string]attest.Attestor) {
	t.Helper()
	clock := attesttest.NewClock()
	clock.Set(at)
	i := attesttest.NewIssuer(t, clock)
	a, err := oidc.New(oidc.Config{Name: "sso", Issuer: i.URL, Audience: brokertest.Issuer, JWKS: i.JWKS(), Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return i, clock, map[string]attest.Attestor{"sso": a}
}

func withPeople(t *testing.T, x *target, people ...broker.PrincipalConfig) {
	t.Helper()
	x.Broker = x.replica(t, func(c *core.Config) {
		c.Principals = append(slices.Clone(c.Principals), people...)
		c.LiveStore = hookLiveStore{x.memory, x.liveStore}
	})
}

func person(id string, selectors map[string]string, roles ...broker.Role) broker.PrincipalConfig {
	return broker.PrincipalConfig{Principal: broker.Principal{ID: id, Roles: roles, Groups: []string{"approvers"}}, Match: &broker.Match{Attestor: "sso", Selectors: selectors}}
}

// An attestor for people accepts no sandbox, and the other way round. Otherwise a reader of a
// sandbox's evidence could sign in with it.
func TestAttackPersonOrSandbox(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	spec := brokertest.Spec()
	spec.Ticket, spec.Expect = false, broker.Expect{Attestor: "sso", Selectors: map[string]string{"sub": "ann"}}
	task, _, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec) // before it recognised people
	if err != nil {
		t.Fatal(err)
	}
	withPeople(t, x, person("ann@example.com", map[string]string{"sub": "ann"}, broker.RoleApprover))
	_, _, err = x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec)
	kindOf(t, err, broker.Invalid)
	token := issuer.Token(attesttest.Claims{"sub": "ann", "aud": brokertest.Issuer, "auth_time": start.Unix()})
	key := brokertest.NewKey(t)
	_, err = x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(token)}, x.Prove(t, key))
	kindOf(t, err, broker.InvalidEvidence)
	if _, err := x.Broker.PrincipalExchange(t.Context(), token, x.Prove(t, key)); err != nil {
		t.Fatal(err)
	}
}

// I4: a token for the API does not outlive the ID token for which it was issued, and the ID token
// serves one key.
//
//ebb:invariant I4
func TestAttackPersonOutlivesTheirEvidence(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	withPeople(t, x, person("ann@example.com", map[string]string{"sub": "ann"}, broker.RoleApprover))
	id := issuer.Token(attesttest.Claims{"sub": "ann", "aud": brokertest.Issuer, "auth_time": start.Unix(), "exp": start.Add(90 * time.Second).Unix()})
	tok, err := x.Broker.PrincipalExchange(t.Context(), id, x.Prove(t, brokertest.NewKey(t)))
	if err != nil {
		t.Fatal(err)
	}
	if tok.ExpiresIn > 90 {
		t.Errorf("it lives for %d s, its evidence for 90", tok.ExpiresIn)
	}
	_, err = x.Broker.PrincipalExchange(t.Context(), id, x.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.Invalid)
	// An ID token that names a key serves that key only.
	mine := x.Prove(t, brokertest.NewKey(t))
	id = issuer.Token(attesttest.Claims{"sub": "ann", "aud": brokertest.Issuer, "auth_time": start.Unix(), "cnf": map[string]any{"jkt": mine.Key.JKT}})
	_, err = x.Broker.PrincipalExchange(t.Context(), id, x.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.Invalid)
	if _, err = x.Broker.PrincipalExchange(t.Context(), id, mine); err != nil {
		t.Error(err)
	}
}

// Task tokens and tickets belong to sandboxes, and sandboxes are never principals.
func TestAttackSandboxAsPrincipal(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	cfg := x.Config
	cfg.Registerer = nil
	cfg.Principals = append(slices.Clone(cfg.Principals), broker.PrincipalConfig{
		Principal: broker.Principal{ID: "box", Roles: []broker.Role{broker.RoleOperator}},
		Match:     &broker.Match{Attestor: "enroll", Selectors: map[string]string{"sub": "x"}},
	})
	if _, err := core.New(t.Context(), cfg); err == nil {
		t.Error("a principal that is recognised by a task token was accepted")
	}
}

// An ID token that matches two principals is refused.
func TestAttackTwoPrincipalsOneToken(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	withPeople(t, x, person("one", map[string]string{"sub": "ann"}, broker.RoleApprover), person("two", map[string]string{"sub": "ann"}, broker.RoleOperator))
	_, err := x.Broker.PrincipalExchange(t.Context(), issuer.Token(attesttest.Claims{"sub": "ann", "aud": brokertest.Issuer, "auth_time": start.Unix()}), x.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.Invalid)
}

// Evidence belongs to the first key that used it, also after the loss of the LiveStore: a stolen ID
// token, or a stolen token of a workload, is refused for another key.
func TestAttackStolenEvidenceAfterRestart(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	boxes, err := oidc.New(oidc.Config{Name: "boxes", Issuer: issuer.URL, Audience: "https://boxes.test", JWKS: issuer.JWKS(), Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	attestors["boxes"] = boxes
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	withPeople(t, x, person("ann@example.com", map[string]string{"sub": "ann"}, broker.RoleApprover))
	id := issuer.Token(attesttest.Claims{"sub": "ann", "aud": brokertest.Issuer, "auth_time": start.Unix()})
	mine := brokertest.NewKey(t)
	if _, err := x.Broker.PrincipalExchange(t.Context(), id, x.Prove(t, mine)); err != nil {
		t.Fatal(err)
	}
	spec := brokertest.Spec()
	spec.Ticket, spec.Expect = false, broker.Expect{Attestor: "boxes", Selectors: map[string]string{"sub": "workload"}}
	workload := issuer.Token(attesttest.Claims{"aud": "https://boxes.test"})
	enrol := func(key jose.Signer) error {
		task, _, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec)
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(workload)}, x.Prove(t, key))
		return err
	}
	if err := enrol(mine); err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(2 * time.Second)
	x.memory.lose()
	withPeople(t, x, person("ann@example.com", map[string]string{"sub": "ann"}, broker.RoleApprover))
	_, err = x.Broker.PrincipalExchange(t.Context(), id, x.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.Invalid)
	if _, err = x.Broker.PrincipalExchange(t.Context(), id, x.Prove(t, mine)); err != nil {
		t.Error(err)
	}
	if err := enrol(brokertest.NewKey(t)); err == nil {
		t.Error("a workload's token that another key had used enrolled a stranger")
	}
	if err := enrol(mine); err != nil {
		t.Error(err)
	}
}

// The same token at two attestors that trust its issuer, as with one for each team, is one piece of
// evidence: its first key keeps it at both.
func TestAttackStolenEvidenceAtATwin(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	for _, name := range []string{"boxes", "twins"} {
		a, err := oidc.New(oidc.Config{Name: name, Issuer: issuer.URL, Audience: "https://boxes.test", JWKS: issuer.JWKS(), Now: func() time.Time { return start }})
		if err != nil {
			t.Fatal(err)
		}
		attestors[name] = a
	}
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	workload := issuer.Token(attesttest.Claims{"aud": "https://boxes.test"})
	enrol := func(attestor string, key jose.Signer) error {
		spec := brokertest.Spec()
		spec.Ticket, spec.Expect = false, broker.Expect{Attestor: attestor, Selectors: map[string]string{"sub": "workload"}}
		task, _, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec)
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(workload)}, x.Prove(t, key))
		return err
	}
	mine := brokertest.NewKey(t)
	if err := enrol("boxes", mine); err != nil {
		t.Fatal(err)
	}
	if err := enrol("twins", brokertest.NewKey(t)); err == nil {
		t.Error("a token that another key had used at one attestor enrolled a stranger at the other")
	}
	if err := enrol("twins", mine); err != nil {
		t.Error(err)
	}
}
