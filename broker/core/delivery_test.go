package core_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// bearing is a third party whose credential, which is its handle, egress can add to requests.
type bearing struct{ provider.Driver }

func (bearing) Describe(s scopes.Scope) (provider.Effect, error) { return provider.ByAction(s), nil }

func (bearing) Injects(s scopes.Set) bool { return !strings.Contains(s.String(), "elsewhere") }

func (bearing) Inject(_ context.Context, r *http.Request, t provider.Target) error {
	provider.SetHeader(r, "Authorization", "Bearer "+t.Handle.Reveal())
	return nil
}

func (bearing) ScopesFor(string, *http.Request) []scopes.Scope { return nil }

func allowing(rule string) map[string][]byte {
	return map[string][]byte{"p.cedar": []byte(`@id("all") @why("all") ` + rule + ` permit (principal, action, resource);`)}
}

// delivering returns a broker with a third party that injects.
func delivering(t *testing.T, rule string, egress bool) *third {
	t.Helper()
	return thirdParty(t, shape{
		party:  brokertest.Party{ByHandle: true},
		config: brokertest.Config{Egress: egress, Policies: allowing(rule)},
		change: func(p *broker.Provider) { p.Driver = bearing{p.Driver} },
	})
}

func asked(t *testing.T, s *brokertest.Sandbox, scope, delivery string) (broker.Token, error) {
	t.Helper()
	r := s.Request(t, scope)
	r.Delivery, r.Deferred = delivery, true
	return s.Env.Broker.Token(t.Context(), r)
}

// used returns the credential that egress would send for a lease at a broker.
func used(t *testing.T, b *core.Broker, taskID, leaseID string) (string, error) {
	t.Helper()
	u, err := b.Use(t.Context(), broker.Caller{TaskID: taskID}, leaseID)
	if err != nil {
		return "", err
	}
	r, _ := http.NewRequest(http.MethodGet, "https://api.example.com/", nil)
	if err := u.Injector.Inject(t.Context(), r, u.Target); err != nil {
		t.Fatal(err)
	}
	return r.Header.Get("Authorization"), nil
}

// TestDeliveryByEgress: a credential that cannot be bound to the sandbox's key stays in ebb,
// sealed. The sandbox gets a placeholder, any replica can use it after any restart, and it is
// erased when its task has been closed.
//
//ebb:invariant I8 A credential with egress delivery stays in ebb, and the sandbox gets only its placeholder
//ebb:invariant I8 When a lease reaches its final state, the sealed credential that egress uses is erased from the database
func TestDeliveryByEgress(t *testing.T) {
	t.Parallel()
	x := delivering(t, "", true)
	s := x.Open(t, upSpec())
	tok, err := asked(t, s, "up:a:read", "")
	if err != nil {
		t.Fatal(err)
	}
	if tok.Token.Reveal() != "ebb-placeholder."+tok.LeaseID || tok.Type != "N_A" || tok.Format != provider.PlaceholderFormat {
		t.Errorf("the sandbox has %s %q (%s)", tok.Type, tok.Token.Reveal(), tok.Format)
	}
	if l := x.lease(t, tok.LeaseID); l.Delivery != policy.DeliveryEgress || l.Upstream == nil || l.Upstream.Handle != "" {
		t.Errorf("on the record: %+v", l)
	}
	if e := entries(t, x.target, broker.EntryFilter{LeaseID: tok.LeaseID, Kind: audit.LeaseIssued}); len(e) != 1 || !strings.Contains(string(e[0].Data), `"delivery":"egress"`) {
		t.Errorf("in the trail: %+v", e)
	}
	secret, err := used(t, x.Broker, s.Task.ID, tok.LeaseID)
	if err != nil || !strings.HasPrefix(secret, "Bearer ") || len(secret) < 16 {
		t.Fatalf("egress sends %q, %v", secret, err)
	}
	if again, err := used(t, x.replica(t), s.Task.ID, tok.LeaseID); again != secret {
		t.Errorf("another replica sends %q, %v", again, err)
	}
	ls, err := x.Broker.Injectable(t.Context(), broker.Caller{TaskID: s.Task.ID})
	if err != nil || len(ls) != 1 || ls[0].ID != tok.LeaseID {
		t.Errorf("injectable: %+v, %v", ls, err)
	}
	files, err := filepath.Glob(filepath.Join(x.dir, "ebb.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no database")
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if form := brokertest.Hides(raw, strings.TrimPrefix(secret, "Bearer ")); form != "" {
			t.Errorf("%s holds the credential (%s)", filepath.Base(f), form)
		}
	}
	x.complete(t, s.Task.ID)
	kindOf(t, func() error { _, err := used(t, x.Broker, s.Task.ID, tok.LeaseID); return err }(), broker.Denied)
	eventually(t, "the sealed credential is erased", func() bool { return len(x.handles(t)) == 0 && len(x.up.Alive()) == 0 })
}

// TestDeliveryOfAnyLength: a credential for which egress could not search in responses is not
// minted for egress, and one that the provider has made is revoked. As a token it is issued.
//
//ebb:invariant I8 A provider's credential for egress is refused and revoked if its length makes it impossible to search responses for it
func TestDeliveryOfAnyLength(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{provider.MinInjected - 1: false, provider.MinInjected: true, provider.MaxInjected: true, provider.MaxInjected + 1: false} {
		x := thirdParty(t, shape{
			party:  brokertest.Party{ByHandle: true, Shape: func(c *provider.Credential) { c.Token = secret.New(strings.Repeat("x", n)) }},
			config: brokertest.Config{Egress: true, Policies: allowing("")},
			change: func(p *broker.Provider) { p.Driver = bearing{p.Driver} },
		})
		s := x.Open(t, upSpec())
		_, err := asked(t, s, "up:a:read", policy.DeliveryEgress)
		if (err == nil) != ok {
			t.Errorf("%d bytes: %v", n, err)
		}
		if !ok {
			if e := broker.AsError(err); e.Kind != broker.Denied || !strings.Contains(e.Public, "8192 bytes") {
				t.Errorf("%d bytes: %v", n, err)
			}
			eventually(t, "it is taken back", func() bool { return len(x.up.Alive()) == 0 })
		}
		if tok, err := asked(t, s, "up:b:read", policy.DeliveryToken); err != nil || len(tok.Token.Reveal()) != n {
			t.Errorf("%d bytes as a token: %v", n, err)
		}
	}
}

// TestDeliveryAsked: a caller that requests the token itself gets it, if policy permits, and egress
// cannot use it then. An impossible delivery is refused before the mint.
//
//ebb:invariant I2 The egress proxy uses no lease whose credential was issued to the sandbox itself
//ebb:invariant I6 A requested delivery method that is not possible is refused before policy is evaluated
func TestDeliveryAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		egress          bool
		scope, delivery string
		token           bool
		kind            broker.Kind
	}{
		"token":                  {true, "up:a:read", "token", true, ""},
		"egress":                 {true, "up:a:read", "egress", false, ""},
		"nothing":                {true, "up:a:read", "", false, ""},
		"scopes nobody can send": {true, "up:elsewhere:read", "", true, ""},
		"by egress all the same": {true, "up:elsewhere:read", "egress", false, broker.Denied},
		"no proxy":               {false, "up:a:read", "", true, ""},
		"no proxy, egress":       {false, "up:a:read", "egress", false, broker.Denied},
		"another word":           {true, "up:a:read", "carrier", false, broker.Invalid},
		"of another provider":    {true, "orders:eu:read", "egress", false, broker.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := delivering(t, "", c.egress)
			spec := upSpec()
			spec.Ceiling = scopesOf("up:**:* orders:**:*")
			s := x.Open(t, spec)
			tok, err := asked(t, s, c.scope, c.delivery)
			if c.kind != "" {
				kindOf(t, err, c.kind)
				if x.up.Minted() != 0 {
					t.Error("minted")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if is := tok.Type == "Bearer"; is != c.token || is == strings.HasPrefix(tok.Token.Reveal(), provider.PlaceholderPrefix) {
				t.Errorf("%s %s", tok.Type, tok.Format)
			}
			if _, err := used(t, x.Broker, s.Task.ID, tok.LeaseID); (err != nil) != c.token {
				t.Errorf("egress: %v", err)
			}
		})
	}
}

// TestDeliveryByPolicy: policy requires egress, for any requested delivery; if egress is
// impossible, nothing is minted and no approval is requested.
//
//ebb:invariant I6 A delivery method required by policy that is not possible is refused before an approver is asked
//ebb:invariant I7 The policy is evaluated for the delivery that the credential will actually have
func TestDeliveryByPolicy(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]string{"allowed": "", "asks": `@ask("approvers")`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := delivering(t, ask+` @deliver("egress")`, true)
			spec := upSpec()
			spec.Ceiling = scopesOf("up:**:* orders:**:*")
			s := x.Open(t, spec)
			tok, err := asked(t, s, "up:a:read", "token")
			if ask != "" {
				p := kindOf(t, err, broker.Pending).Pending
				if _, f := sheetOf(t, x.Env, p.RequestID); f.Delivery != policy.DeliveryEgress {
					t.Errorf("people are shown %q", f.Delivery)
				}
				approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
				tok, err = s.Poll(t, p.DeferralCode.Reveal())
			}
			if err != nil || tok.Token.Reveal() != "ebb-placeholder."+tok.LeaseID {
				t.Errorf("%q, %v", tok.Token.Reveal(), err)
			}
			for _, scope := range []string{"up:elsewhere:read", "orders:eu:read"} {
				_, err = asked(t, s, scope, "")
				kindOf(t, err, broker.Denied)
			}
			if n := x.up.Minted(); n != 1 {
				t.Errorf("minted %d times", n)
			}
			if rs, err := x.Broker.Requests(t.Context(), x.who(brokertest.Approver), broker.RequestFilter{State: broker.RequestPending}); err != nil || len(rs) != 0 {
				t.Errorf("people are asked: %v %v", rs, err)
			}
		})
	}
}

// I7: an approval for a credential that stays in ebb never issues it to the sandbox; a credential
// approved for issue may stay.
//
//ebb:invariant I7 An approval for a credential that stays in ebb never causes that credential to be issued to the sandbox
func TestApprovalIsOfADelivery(t *testing.T) {
	t.Parallel()
	for first, then := range map[string]map[string]bool{"egress": {"egress": true, "token": false}, "token": {"token": true, "egress": true}} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			x := delivering(t, `@ask("approvers")`, true)
			s := x.Open(t, upSpec())
			_, err := asked(t, s, "up:a:read", first)
			p := kindOf(t, err, broker.Pending).Pending
			approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
			tok, err := s.Poll(t, p.DeferralCode.Reveal())
			if err != nil || (tok.Type == "Bearer") != (first == "token") {
				t.Fatalf("%s: %s, %v", first, tok.Type, err)
			}
			for next, serves := range then {
				tok, err := asked(t, s, "up:a:read", next)
				if (err == nil) != serves || err == nil && (tok.Type == "Bearer") != (next == "token") {
					t.Errorf("then %s: %s, %v", next, tok.Type, err)
				}
				if err != nil {
					kindOf(t, err, broker.Pending)
				}
			}
		})
	}
}

// forgetful opens no text that was sealed before a given time.
type forgetful struct {
	broker.Sealer
	old map[string]bool
}

func (f forgetful) Open(leaseID, sealed string) (secret.Secret, error) {
	if f.old[sealed] {
		return secret.Secret{}, errors.New("the key is gone")
	}
	return f.Sealer.Open(leaseID, sealed)
}

// The removal of a rotated key does not affect live credentials: resealed ones can be read, and one
// that cannot be opened gives an error and no denial.
func TestDeliveryAfterRotation(t *testing.T) {
	t.Parallel()
	x := delivering(t, "", true)
	s := x.Open(t, upSpec())
	tok, err := asked(t, s, "up:a:read", "")
	if err != nil {
		t.Fatal(err)
	}
	old := forgetful{x.Config.Sealer, map[string]bool{}}
	b := x.replica(t, func(c *core.Config) { c.Sealer = old })
	want, err := used(t, b, s.Task.ID, tok.LeaseID)
	if err != nil {
		t.Fatal(err)
	}
	sealed := x.handles(t)[tok.LeaseID]
	old.old[sealed] = true
	_, err = used(t, b, s.Task.ID, tok.LeaseID)
	kindOf(t, err, broker.Unavailable)
	again, err := x.Config.Sealer.Seal(tok.LeaseID, secret.New(strings.TrimPrefix(want, "Bearer ")))
	if err != nil {
		t.Fatal(err)
	}
	if err := x.db.Append(t.Context(), broker.Record{ResealLease: &broker.LeaseSeal{ID: tok.LeaseID, From: sealed, To: again}}); err != nil {
		t.Fatal(err)
	}
	if got, err := used(t, b, s.Task.ID, tok.LeaseID); got != want {
		t.Errorf("after the rotation: %q, %v", got, err)
	}
	x.Clock.Add(2 * time.Hour)
	_, err = used(t, b, s.Task.ID, tok.LeaseID)
	kindOf(t, err, broker.Denied)
}
