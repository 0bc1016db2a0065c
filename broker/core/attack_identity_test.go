package core_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/oidc"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// A person is identified by the issuer and the name: the same name at another issuer is another
// person.
func TestAttackNameAtAnotherIssuer(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, clock, attestors := sso(t, start)
	foreign := attesttest.NewIssuer(t, clock)
	a, err := oidc.New(oidc.Config{Name: "partner", Issuer: foreign.URL, Audience: brokertest.Issuer, JWKS: foreign.JWKS(), Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	attestors = maps.Clone(attestors)
	attestors["partner"] = a
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	guest := person("guest", map[string]string{"sub": "zed"}, broker.RoleApprover)
	guest.Match.Attestor = "partner"
	withPeople(t, x, person("ann@example.com", map[string]string{"sub": "ann"}, broker.RoleApprover), guest)
	for name, c := range map[string]struct {
		issuer *attesttest.Issuer
		sub    string
		ok     bool
	}{
		"ann": {issuer, "ann", true}, "the guest": {foreign, "zed", true}, "ann, says the partner": {foreign, "ann", false}, "the guest, says the sso": {issuer, "zed", false},
	} {
		tok, err := x.Broker.PrincipalExchange(t.Context(), c.issuer.Token(attesttest.Claims{"sub": c.sub, "aud": brokertest.Issuer, "auth_time": start.Unix()}), x.Prove(t, brokertest.NewKey(t)))
		if (err == nil) != c.ok || err != nil && broker.AsError(err).Kind != broker.Invalid {
			t.Errorf("%s: %+v, %v", name, tok, err)
		}
	}
}

// One key in two tasks: one task cannot fetch the request of the other.
func TestAttackPollAsAnotherTask(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/1:write")
	approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
	spec := brokertest.Spec()
	spec.Ticket = true
	task, ticket, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec)
	if err != nil {
		t.Fatal(err)
	}
	poll := func(by broker.Subject) error {
		_, err := x.Broker.Poll(t.Context(), approval.PollRequest{Code: p.DeferralCode.Reveal(), Subject: by, Possession: x.Prove(t, s.Key)})
		return err
	}
	twin, err := x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, x.Prove(t, s.Key))
	if err != nil {
		t.Fatal(err)
	}
	kindOf(t, poll(broker.Subject{Assertion: x.Assertion(t, twin.Task.Sandbox.ID, s.Key), Fault: broker.Unauthenticated}), broker.InvalidGrant)
	x.Clock.Add(10 * time.Second)
	if err := poll(broker.Subject{Assertion: x.Assertion(t, s.Task.Sandbox.ID, s.Key), Fault: broker.Unauthenticated}); err != nil {
		t.Errorf("the requesting task: %v", err)
	}
}

// A sandbox revokes its own credentials by their ids, and no others.
func TestAttackEndByAnotherId(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s, other := x.Open(t, brokertest.Spec()), x.Open(t, brokertest.Spec())
	tok := minted(t, s, "orders:eu/1:read")
	end := func(by *brokertest.Sandbox, id string) {
		t.Helper()
		r := by.Request(t, "orders:eu/1:read")
		if err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &r.Subject, Possession: r.Possession}, id); err != nil {
			t.Fatal(err)
		}
	}
	end(other, tok.LeaseID)
	if !x.Active(t, tok.Token.Reveal()) {
		t.Error("another sandbox ended it")
	}
	end(s, "lse_"+strings.Repeat("0", 32))
	end(s, tok.LeaseID)
	if x.Active(t, tok.Token.Reveal()) {
		t.Error("its own sandbox did not end it")
	}
	kindOf(t, x.Broker.RevokeToken(t.Context(), broker.Revoker{}, tok.LeaseID), broker.Unauthenticated)
	// A decided request cannot be withdrawn, and the attempt is no error.
	p := pending(t, s, "orders:eu/1:write")
	if _, err := x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Code: broker.NotNeeded}); err != nil {
		t.Fatal(err)
	}
	end(s, p.DeferralCode.Reveal())
	if r, _ := sheetOf(t, x.Env, p.RequestID); r.State != broker.RequestDenied {
		t.Errorf("it is %s", r.State)
	}
}

// A token that is bound to a certificate is narrowed with that certificate, not with another one of
// the same key.
func TestAttackAnotherCertificate(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	tok, err := x.Broker.Token(t.Context(), byCertificate(s.Request(t, "orders:eu/1:read")))
	if err != nil {
		t.Fatal(err)
	}
	narrow := func(change func(*broker.Possession)) error {
		r := byCertificate(s.Request(t, "orders:eu/1:read"))
		change(&r.Possession)
		r.Subject = broker.Subject{AccessToken: tok.Token.Reveal(), Fault: broker.Invalid}
		_, err := x.Broker.Token(t.Context(), r)
		return err
	}
	if err := narrow(func(*broker.Possession) {}); err != nil {
		t.Fatal(err)
	}
	kindOf(t, narrow(func(p *broker.Possession) { p.X5T = "B" + p.X5T[1:] }), broker.Invalid)
	kindOf(t, narrow(func(p *broker.Possession) { p.X5T = "" }), broker.Invalid)
}

// A sandbox's token gives no access to the API, although its subject is a principal's name; a token
// for the API is not accepted by resource servers.
func TestAttackTokensOfTwoKinds(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Owner = brokertest.Operator
	s := x.Open(t, spec)
	tok := minted(t, s, "orders:eu/1:read")
	if _, err := x.Broker.AuthenticateToken(t.Context(), tok.Token.Reveal(), x.Prove(t, s.Key)); broker.AsError(err) == nil || !strings.Contains(err.Error(), "another resource") {
		t.Errorf("a sandbox's token at the API: %v", err)
	}
	key := x.Keys[brokertest.Operator]
	api, err := x.Broker.PrincipalToken(t.Context(), x.Assertion(t, brokertest.Operator, key), x.Prove(t, key), "")
	if err != nil {
		t.Fatal(err)
	}
	if x.Active(t, api.Token.Reveal()) {
		t.Error("a token for the API is active at a resource server")
	}
}

// A decision of two people is not undone by a later vote.
func TestSuspicionAfterTheYes(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/1:write")
	approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
	_, err := x.Broker.Decide(t.Context(), x.who(brokertest.Second), p.RequestID, broker.Verdict{Code: broker.Suspicious})
	kindOf(t, err, broker.Conflict)
	if _, err := s.Poll(t, p.DeferralCode.Reveal()); err != nil {
		t.Error(err)
	}
}
