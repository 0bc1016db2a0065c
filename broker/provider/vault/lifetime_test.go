package vault_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/vault"
	"github.com/ebb-broker/ebb/broker/vaultapi"
	"github.com/ebb-broker/ebb/broker/vaultapi/vaulttest"
)

// TestAnEngineThatGivesLongerIsRefused: the engine's role has a lifetime of an hour for a
// lease of two minutes. If the database is unavailable when the token ends, the credential
// remains valid for that hour.
func TestAnEngineThatGivesLongerIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g, s := grant("long")
	c, err := driver(t, b.cfg).Mint(t.Context(), g)
	if !errors.Is(err, provider.ErrRefused) || !c.Token.Empty() {
		t.Fatalf("Mint = %v", err)
	}
	if n := b.alive(t, "long"); n != 0 {
		t.Errorf("%d leases are left", n)
	}
	if alive, err := driver(t, b.cfg).Probe(t.Context(), targetOf(g, s.handle)); err != nil || alive {
		t.Errorf("its token: %v, %v", alive, err)
	}
	// The operator says that it may: it is told when it ends at the latest.
	p := b.cfg.Grants["orders"]["long"]
	p.MaxLifetime = 3600
	b.cfg.Grants["orders"]["long"] = p
	d := driver(t, b.cfg)
	g, c = b.mint(t, d, "long")
	if c.ExpiresAt.After(g.ExpiresAt) || c.DiesAt.Before(g.IssuedAt.Add(time.Hour-time.Second)) || d.Traits().Floor != time.Hour {
		t.Errorf("expires %s, dies %s, floor %s", c.ExpiresAt, c.DiesAt, d.Traits().Floor)
	}
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Error(err)
	}
}

// engine answers as Vault does, with an engine's lease of so many seconds; it revokes
// with the given status.
func engine(t *testing.T, seconds string, revoke int) vault.Config {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "token/create"):
			_, _ = w.Write([]byte(`{"auth":{"client_token":"lease-token","accessor":"acc","policies":["p"],"token_policies":["p"],"lease_duration":150}}`))
		case strings.Contains(r.URL.Path, "revoke"):
			w.WriteHeader(revoke)
			if revoke >= 400 {
				_, _ = w.Write([]byte(`{"errors":["no backend"]}`))
			}
		default:
			_, _ = fmt.Fprintf(w, `{"lease_id":"pki/issue/1","lease_duration":%s,"data":{"password":"canary-secret"}}`, seconds)
		}
	}))
	t.Cleanup(s.Close)
	return vault.Config{
		Config:    vaultapi.Config{Address: s.URL, Auth: vaultapi.Auth{Method: "token", TokenFile: vaulttest.File(t, "me")}, Timeout: 20 * time.Second},
		TokenRole: "leases", Grants: map[string]map[string]vault.Path{"orders": {"read": {Path: "pki/issue/x", Policies: []string{"p"}}}},
	}
}

func TestLifetimesOfEngines(t *testing.T) {
	t.Parallel()
	for seconds, ok := range map[string]bool{
		"60": true, "120": true, "150": true, "151": false, "2764800": false, "0": false, "-1": false, "9223372036": false, "9223372036854775807": false,
	} {
		g, _ := grant("read")
		c, err := driver(t, engine(t, seconds, http.StatusNoContent)).Mint(t.Context(), g)
		if (err == nil) != ok || !ok && !errors.Is(err, provider.ErrRefused) || !ok && !c.Token.Empty() {
			t.Errorf("%s s: %v", seconds, err)
		}
	}
	// It cannot be taken back now: that is pending, until the end that the engine gave.
	g, _ := grant("read")
	c, err := driver(t, engine(t, "2764800", http.StatusBadRequest)).Mint(t.Context(), g)
	if err == nil || errors.Is(err, provider.ErrRefused) || c.Handle.Empty() || c.DiesAt.Before(g.IssuedAt.Add(2764800*time.Second)) || strings.Contains(err.Error(), "canary") {
		t.Errorf("Mint = %v, dies %s", err, c.DiesAt)
	}
}

// TestWhatOnlyTimeEnds: a server that has no current revocation list accepts a revoked
// certificate. The driver therefore reports the class ttl-only, and does not take the server's
// answer as a proof of the revocation.
func TestWhatOnlyTimeEnds(t *testing.T) {
	t.Parallel()
	cfg := engine(t, "120", http.StatusNoContent)
	cfg.TTLOnly = true
	d := driver(t, cfg)
	if r := d.Traits().Revocability; r.Class != provider.ClassTTLOnly || r.Bound != 0 {
		t.Errorf("%+v", r)
	}
	g, _ := grant("read")
	c, err := d.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	if alive, err := d.Probe(t.Context(), targetOf(g, c.Handle)); alive || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Probe = %v, %v", alive, err)
	}
	// Longer than it may: revoking it does not make it as if nothing had been made.
	cfg = engine(t, "3600", http.StatusNoContent)
	cfg.TTLOnly = true
	if c, err := driver(t, cfg).Mint(t.Context(), g); err == nil || errors.Is(err, provider.ErrRefused) || c.Handle.Empty() || c.DiesAt.Before(g.IssuedAt.Add(time.Hour)) {
		t.Errorf("Mint = %v, dies %s", err, c.DiesAt)
	}
	var read vault.Config
	if err := json.Unmarshal([]byte(`{"ttl_only":true,"grants":{"a":{"b":{"path":"x","max_lifetime":60}}}}`), &read); err != nil || !read.TTLOnly || read.Grants["a"]["b"].MaxLifetime != 60 {
		t.Errorf("%+v, %v", read, err)
	}
}

// TestAWideTokenIsPendingUntilItIsDead: the token role grants more than the driver requested.
// While that token is valid, Mint's error does not claim that nothing was made.
func TestAWideTokenIsPendingUntilItIsDead(t *testing.T) {
	t.Parallel()
	for status, dead := range map[int]bool{http.StatusNoContent: true, http.StatusBadRequest: false, http.StatusBadGateway: false} {
		cfg := engine(t, "60", status)
		cfg.Grants["orders"]["read"] = vault.Path{Path: "pki/issue/x", Policies: []string{"another"}}
		g, s := grant("read")
		c, err := driver(t, cfg).Mint(t.Context(), g)
		if err == nil || errors.Is(err, provider.ErrRefused) != dead || c.Handle.Empty() != dead || !c.Token.Empty() || !s.handle.Empty() {
			t.Errorf("%d: Mint = %v, handle %v", status, err, !c.Handle.Empty())
		}
	}
}

// TestATokenWithMoreThanWasAskedForIsTakenBack: a token with further policies, with an entity,
// or with a longer lifetime is not used for a lease.
func TestATokenWithMoreThanWasAskedForIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, auth := range map[string]string{
		"policies of an entity": `"policies":["p"],"identity_policies":["p"],"lease_duration":150`,
		"a longer life":         `"policies":["p"],"lease_duration":152`,
		"no end":                `"policies":["p"],"lease_duration":0`,
		"another policy":        `"policies":["p","q"],"lease_duration":150`,
	} {
		var asked bool
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.Contains(r.URL.Path, "token/create"):
				_, _ = w.Write([]byte(`{"auth":{"client_token":"lease-token","accessor":"acc",` + auth + `}}`))
			case strings.Contains(r.URL.Path, "revoke"):
				w.WriteHeader(http.StatusNoContent)
			default:
				asked = true
			}
		}))
		defer s.Close()
		cfg := engine(t, "60", http.StatusNoContent)
		cfg.Address = s.URL
		g, _ := grant("read")
		if _, err := driver(t, cfg).Mint(t.Context(), g); !errors.Is(err, provider.ErrRefused) || asked {
			t.Errorf("%s: Mint = %v, the engine was asked: %v", name, err, asked)
		}
	}
}
