package core_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
)

const permitAll = `@id("all") permit (principal, action, resource);`

// anything is a policy that permits all scopes of any revocability.
var anything = map[string][]byte{"all.cedar": []byte(permitAll)}

func eventual(bound time.Duration) provider.Revocability {
	return provider.Revocability{Class: provider.ClassEventual, Bound: bound}
}

func ofClass(r provider.Revocability) brokertest.Party {
	return brokertest.Party{Traits: provider.Traits{Revocability: r}}
}

// Policy sees the revocability of a credential before it is minted.
func TestPolicySeesRevocability(t *testing.T) {
	t.Parallel()
	const picky = `
		@id("soon") permit (principal, action, resource) when { context.revocability == "instant" || context.revocability == "eventual" && context.revocation_bound <= 60 };
		@id("late") @ask("approvers") permit (principal, action, resource) when { context.revocability == "eventual" && context.revocation_bound > 60 };
		@id("own") forbid (principal, action, resource) when { resource.provider == "orders" && (context.revocability != "instant" || context.revocation_bound != 0) };`
	const through = `@id("through") @deliver("egress") permit (principal, action, resource) when { context.revocability == "ttl-only" };`
	never := provider.Revocability{Class: provider.ClassTTLOnly}
	for name, c := range map[string]struct {
		policy string // "" = the starter policy
		class  provider.Revocability
		want   broker.Kind // "" = issued
	}{
		"starter, instant":       {"", provider.Revocability{Class: provider.ClassInstant}, ""},
		"starter, eventual":      {"", eventual(time.Hour), ""},
		"starter, ttl-only":      {"", never, broker.AskRequired},
		"within the bound":       {picky, eventual(time.Minute), ""},
		"beyond the bound":       {picky, eventual(61 * time.Second), broker.AskRequired},
		"no policy for ttl-only": {picky, never, broker.Denied},
		"only through egress":    {through, never, broker.Denied},
		"not through egress":     {through, provider.Revocability{Class: provider.ClassInstant}, broker.Denied},
		"no bound":               {permitAll, provider.Revocability{Class: provider.ClassEventual}, broker.Unavailable},
		"nobody knows":           {permitAll, provider.Revocability{Class: "forever"}, broker.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := brokertest.Config{}
			if c.policy != "" {
				cfg.Policies = map[string][]byte{"p.cedar": []byte(c.policy)}
			}
			x := thirdParty(t, shape{idle: true, party: ofClass(c.class), config: cfg})
			s := x.Open(t, upSpec())
			tok, err := s.Ask(t, "up:a:read")
			if c.want != "" {
				kindOf(t, err, c.want)
				if x.up.Minted() != 0 || len(x.leases(t, s.Task.ID)) != 0 {
					t.Error("something was minted or intended")
				}
			} else if err != nil || tok.Class != c.class.Class {
				t.Errorf("%s, %v", tok.Class, err)
			}
			if c.policy != through {
				minted(t, s, "orders:a:read")
			}
		})
	}
}

// A credential that is less revocable than policy was told is not issued, and is revoked. A
// stronger claim than the driver's changes nothing.
func TestWeakerCredentialIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		promised, got provider.Revocability
		fine          bool
	}{
		"as promised":    {eventual(20 * time.Second), provider.Revocability{}, true},
		"claims more":    {eventual(20 * time.Second), provider.Revocability{Class: provider.ClassInstant}, true},
		"claims sooner":  {eventual(20 * time.Second), eventual(time.Second), true},
		"never weakest":  {provider.Revocability{Class: provider.ClassTTLOnly}, provider.Revocability{Class: provider.ClassTTLOnly}, true},
		"later":          {eventual(20 * time.Second), eventual(21 * time.Second), false},
		"ttl-only":       {eventual(20 * time.Second), provider.Revocability{Class: provider.ClassTTLOnly}, false},
		"not at once":    {provider.Revocability{Class: provider.ClassInstant}, eventual(time.Second), false},
		"nobody knows":   {eventual(20 * time.Second), provider.Revocability{Class: "forever", Bound: time.Second}, false},
		"without handle": {provider.Revocability{Class: provider.ClassInstant}, provider.Revocability{Class: provider.ClassTTLOnly}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			party := ofClass(c.promised)
			party.ByHandle = name != "without handle"
			party.Shape = func(cred *provider.Credential) { cred.Revocability = c.got }
			x := thirdParty(t, shape{party: party, config: brokertest.Config{Policies: anything}})
			s := x.Open(t, upSpec())
			tok, err := s.Ask(t, "up:a:read")
			l := x.leases(t, s.Task.ID)[0]
			if c.fine {
				if err != nil || tok.Class != c.promised.Class || l.Class != c.promised.Class || l.Upstream.Bound.Duration() != c.promised.Bound {
					t.Errorf("%v, told %s, lease %s %d", err, tok.Class, l.Class, l.Upstream.Bound)
				}
				return
			}
			e := kindOf(t, err, broker.Denied)
			if !strings.Contains(e.Public, "less revocable than was approved") || !tok.Token.Empty() {
				t.Errorf("%s, token %v", e.Public, tok)
			}
			eventually(t, "taken back", func() bool { return len(x.up.Alive()) == 0 })
			// The recorded class is not better than the credential's own.
			class, up := provider.ClassTTLOnly, x.leases(t, s.Task.ID)[0].Upstream
			if c.got.Class == provider.ClassEventual {
				class = provider.ClassEventual
			}
			if l := x.leases(t, s.Task.ID)[0]; l.Class != class || up.Bound.Duration() != c.got.Bound && class == provider.ClassEventual || class == provider.ClassTTLOnly && l.State != broker.LeaseRevoking {
				t.Errorf("the record says %s of class %s, %+v", l.State, l.Class, up)
			}
			if class == provider.ClassTTLOnly {
				x.Clock.Add(up.DiesAt.Sub(x.Clock.Now()) + 61*time.Second)
				x.settled(t, s.Task.ID)
				if up := x.leases(t, s.Task.ID)[0].Upstream; up.Proof != broker.ProofExpired {
					t.Errorf("dead by %s", up.Proof)
				}
			}
			var why struct {
				Why string `json:"why"`
			}
			es := entries(t, x.target, broker.EntryFilter{TaskID: s.Task.ID, Kind: audit.LeaseUndelivered})
			if len(es) != 1 || json.Unmarshal(es[0].Data, &why) != nil || !strings.Contains(why.Why, "less revocable than approved") {
				t.Errorf("on the record: %v", es)
			}
		})
	}
}

// I7: an approval holds for the revocability that the approver saw.
func TestApprovedClassIsKept(t *testing.T) {
	t.Parallel()
	var late atomic.Bool
	d := &odd{traits: func(t provider.Traits) provider.Traits {
		if late.Load() {
			t.Revocability = eventual(2 * time.Minute)
		}
		return t
	}}
	x := tried(t, ofClass(eventual(time.Minute)), d)
	s := x.Open(t, upSpec())
	p := pending(t, s, "up:a:write")
	r, err := x.Broker.Request(t.Context(), x.who(brokertest.Auditor), p.RequestID)
	if err != nil || !strings.Contains(string(r.Facts), `"revocability":"eventual"`) || !strings.Contains(string(r.Facts), `"revocation_bound":60`) {
		t.Fatalf("%v %s", err, r.Facts)
	}
	late.Store(true)
	_, err = x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true})
	kindOf(t, err, broker.Conflict) // before the approval: other facts

	late.Store(false)
	p = pending(t, s, "up:a:write")
	approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
	late.Store(true)
	_, err = s.Poll(t, p.DeferralCode.Reveal())
	kindOf(t, err, broker.Denied) // after it: another class than the approved one
	if x.up.Minted() != 0 {
		t.Error("minted")
	}
	_, err = s.AskDeferred(t, "up:a:write")
	kindOf(t, err, broker.Pending) // a new approval for the present class is requested
}

// The audit log has the revocability of each credential.
func TestRecordSaysRevocability(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{idle: true, party: ofClass(eventual(90 * time.Second))})
	s := x.Open(t, upSpec())
	minted(t, s, "up:a:read")
	minted(t, s, "orders:a:read")
	if _, err := s.Ask(t, "up:a:none orders:a:none"); err == nil {
		t.Error("two providers")
	}
	for kind, want := range map[string]int{audit.LeaseIntended: 1, audit.LeaseIssued: 2} {
		es := entries(t, x.target, broker.EntryFilter{TaskID: s.Task.ID, Kind: kind})
		if len(es) != want {
			t.Fatalf("%s: %d entries", kind, len(es))
		}
		for _, e := range es {
			up := strings.Contains(string(e.Data), `"provider":"up"`)
			if up != strings.Contains(string(e.Data), `"revocability":"eventual","revocation_bound":90,`) || up == strings.Contains(string(e.Data), `"revocability":"instant","rules"`) {
				t.Errorf("%s: %s", kind, e.Data)
			}
		}
	}
}
