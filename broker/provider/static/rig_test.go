package static_test

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

const canary = "sk_live_canary"

// vaultOf returns a secret store on a real database, with one secret.
func vaultOf(t testing.TB, name, value string) *secretstore.Store {
	t.Helper()
	store := sqlstoretest.Open(t)
	s := secretstore.New(store, brokertest.Sealer(t, store, time.Now), nil)
	if err := s.Put(t.Context(), name, secret.New(value)); err != nil {
		t.Fatal(err)
	}
	return s
}

func config() static.Config {
	return static.Config{
		Secret: "stripe", Hosts: []string{"api.example.com", "files.example.com:8443"}, Inject: static.Place{Header: "Authorization", Prefix: "Bearer "},
		Grants: map[string]map[string]static.Rule{
			"charges": {
				"read":  {Rule: stricturl.Rule{Methods: []string{"GET", "HEAD"}, Paths: []string{"/v1/charges", "/v1/charges/**"}}},
				"write": {Rule: stricturl.Rule{Methods: []string{"POST"}, Paths: []string{"/v1/charges", "/v1/charges/*/refund"}}},
			},
			"all": {"use": {Rule: stricturl.Rule{Methods: []string{"GET"}, Paths: []string{"/**"}}}},
		},
	}
}

func driver(t testing.TB, c static.Config, s provider.SecretStore) *static.Driver {
	t.Helper()
	d, err := static.New("stripe", c, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func grant(scope string) provider.Grant {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	now := time.Now()
	return provider.Grant{
		LeaseID: "lse_" + hex.EncodeToString(id), Instance: "0a1b2c3d", TaskID: "tsk_1", Sandbox: "sbx_1", Subject: "ann",
		Scopes: scopes.MustParseSet(scope), IssuedAt: now, ExpiresAt: now.Add(time.Minute),
	}
}

// lease is what the broker remembers: nothing of the secret.
func lease(scope string) provider.Target {
	g := grant(scope)
	return provider.Target{LeaseID: g.LeaseID, Instance: g.Instance, TaskID: g.TaskID, Scopes: g.Scopes, IssuedAt: g.IssuedAt, ExpiresAt: g.ExpiresAt, Now: g.IssuedAt}
}

func request(t testing.TB, method, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return r
}

// wire is a request as a server gets it.
func wire(t testing.TB, r *http.Request) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
