package core_test

import (
	"context"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/provideradmin"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// counted counts the mints of a driver that only injects.
type counted struct {
	*static.Driver
	mints atomic.Int32
}

func (c *counted) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	c.mints.Add(1)
	return c.Driver.Mint(ctx, g)
}

func injectOnly(t *testing.T, policies map[string][]byte) (*brokertest.Env, *counted) {
	t.Helper()
	c := injecting(t)
	return brokertest.New(t, brokertest.Config{Policies: policies, Providers: map[string]broker.Provider{
		"stripe": {Driver: c, Kind: "static", Resource: "https://api.example.com/"},
	}}), c
}

func injecting(t *testing.T) *counted {
	t.Helper()
	store := sqlstoretest.Open(t)
	s := secretstore.New(store, brokertest.Sealer(t, store, time.Now), nil)
	if err := s.Put(t.Context(), "stripe", secret.New("sk_canary")); err != nil {
		t.Fatal(err)
	}
	d, err := static.New("stripe", static.Config{
		Secret: "stripe", Hosts: []string{"api.example.com"}, Inject: static.Place{Header: "Authorization"},
		Grants: map[string]map[string]static.Rule{"charges": {"read": {Rule: stricturl.Rule{Methods: []string{"GET"}, Paths: []string{"/**"}}}}},
	}, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &counted{Driver: d}
}

// A request for an inject-only credential as a token is refused with that reason, under any policy:
// before a mint, and before an approval is requested.
func TestInjectOnlyIsNeverHandedOut(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"allowed": `@id("all") @why("all") permit (principal, action, resource);`,
		"asks":    `@id("ask") @why("ask") @ask("approvers") permit (principal, action, resource);`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, d := injectOnly(t, map[string][]byte{"p.cedar": []byte(text)})
			spec := brokertest.Spec()
			spec.Ceiling = scopes.MustParseSet("stripe:**:*")
			s := e.Open(t, spec)
			_, err := s.Ask(t, "stripe:charges:read")
			kindOf(t, err, broker.Denied)
			if text := broker.AsError(err).Public; !strings.Contains(text, "egress proxy") || strings.Contains(err.Error(), "canary") {
				t.Errorf("it says %q", text)
			}
			if n := d.mints.Load(); n != 0 {
				t.Errorf("minted %d times", n)
			}
			requests, err := e.Broker.Requests(t.Context(), e.Principals[brokertest.Approver], broker.RequestFilter{})
			if err != nil || len(requests) != 0 {
				t.Errorf("people are asked: %v %v", requests, err)
			}
			denied := 0
			seq, err := e.Broker.Entries(t.Context(), e.Principals[brokertest.Auditor], broker.EntryFilter{TaskID: s.Task.ID, Kind: audit.TokenDenied})
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range seq {
				if err != nil {
					t.Fatal(err)
				}
				denied++
			}
			if denied != 1 {
				t.Errorf("%d denials on the record", denied)
			}
		})
	}
}

// Its self-test checks the configuration; there is no credential to mint and revoke.
func TestSelfTestOfInjectOnly(t *testing.T) {
	t.Parallel()
	e, d := injectOnly(t, nil)
	ops := e.Principals[brokertest.Operator]
	out, err := e.Broker.SelfTestProvider(t.Context(), ops, "stripe", provideradmin.SelfTestSpec{})
	if err != nil || !out.OK || len(out.Steps) != 1 || out.Steps[0].Step != "setup" {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = e.Broker.SelfTestProvider(t.Context(), ops, "stripe", provideradmin.SelfTestSpec{Scopes: scopes.MustParseSet("stripe:charges:read")})
	kindOf(t, err, broker.Invalid)
	if d.mints.Load() != 0 {
		t.Error("minted")
	}
}

// A driver that is declared to inject and cannot would make unusable credentials.
func TestInjectOnlyMustInject(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	cfg := e.Config
	cfg.Registerer, cfg.Providers = nil, maps.Clone(cfg.Providers)
	cfg.Providers["keys"] = broker.Provider{Driver: mute{cfg.Providers["orders"].Driver}, Kind: "keys", Resource: "https://keys.test/"}
	if _, err := core.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "keys") {
		t.Errorf("New: %v", err)
	}
}

type mute struct{ provider.Driver }

func (mute) Traits() provider.Traits { return provider.Traits{InjectOnly: true} }
