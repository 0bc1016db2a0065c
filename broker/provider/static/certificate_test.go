package static_test

import (
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/clientcert/clientcerttest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/static"
)

// certified is a configuration that shows a certificate and adds nothing.
func certified() static.Config {
	c := config()
	c.Secret, c.Inject, c.ClientCertificate = "", static.Place{}, &static.Kept{Secret: "mtls"}
	return c
}

//ebb:invariant I6 A client certificate is presented only to the configured hosts of its provider, and only for requests that the scopes of the lease cover
func TestPresents(t *testing.T) {
	t.Parallel()
	a := clientcerttest.New(t)
	d := driver(t, certified(), vaultOf(t, "mtls", a.Client(t, "ebb")))
	for url, ok := range map[string]bool{
		"https://api.example.com/v1/charges": true, "https://files.example.com:8443/v1/charges": true, "https://files.example.com/v1/charges": false,
		"https://evil.example.com/v1/charges": false, "https://api.example.com.evil.com/v1/charges": false, "http://api.example.com/v1/charges": false,
		"https://api.example.com:8443/v1/charges": false, "https://api.example.com/v1/other": false, "https://u@api.example.com/v1/charges": false,
	} {
		r := request(t, "GET", url)
		before := wire(t, r)
		c, err := d.Presents(t.Context(), r, lease("stripe:charges:read"))
		if (c != nil) != ok || (err == nil) != ok || !ok && !errors.Is(err, provider.ErrElsewhere) {
			t.Errorf("%s: %v, %v", url, c, err)
		}
		if err := d.Inject(t.Context(), r, lease("stripe:charges:read")); (err == nil) != ok || wire(t, r) != before {
			t.Errorf("%s: Inject: %v\n%s", url, err, wire(t, r))
		}
	}
	over := lease("stripe:charges:read")
	over.Now = over.ExpiresAt
	if c, err := d.Presents(t.Context(), request(t, "GET", "https://api.example.com/v1/charges"), over); c != nil || err == nil {
		t.Errorf("a lease that is over: %v, %v", c, err)
	}
	plain := driver(t, config(), vaultOf(t, "stripe", canary))
	if c, err := plain.Presents(t.Context(), request(t, "GET", "https://api.example.com/v1/charges"), lease("stripe:charges:read")); c != nil || err != nil {
		t.Errorf("none is configured: %v, %v", c, err)
	}
}

// TestLeasesEndWithTheirCertificate: a lease expires no later than its certificate, because
// servers check the expiry only when a connection is made.
//
//ebb:invariant I4 A lease whose credential is used with a client certificate expires no later than that certificate
func TestLeasesEndWithTheirCertificate(t *testing.T) {
	t.Parallel()
	a := clientcerttest.New(t)
	ends := time.Now().Add(30 * time.Second).Truncate(time.Second)
	d := driver(t, certified(), vaultOf(t, "mtls", a.Client(t, "ebb", func(c *x509.Certificate) { c.NotAfter = ends })))
	c, err := d.Mint(t.Context(), grant("stripe:charges:read"))
	if err != nil || !c.ExpiresAt.Equal(ends) || !c.DiesAt.Equal(ends) {
		t.Errorf("until %s, %v; want %s", c.ExpiresAt, err, ends)
	}
	g := grant("stripe:charges:read")
	if c, err := driver(t, certified(), vaultOf(t, "mtls", a.Client(t, "ebb"))).Mint(t.Context(), g); err != nil || !c.ExpiresAt.Equal(g.ExpiresAt) {
		t.Errorf("until %s, %v", c.ExpiresAt, err)
	}
}

// TestCertificatesThatCannotBeShown: the driver reports a defective certificate at a mint, at
// a handshake, and to the operator in the check of the set-up.
func TestCertificatesThatCannotBeShown(t *testing.T) {
	t.Parallel()
	a := clientcerttest.New(t)
	until := func(d time.Duration) string {
		return a.Client(t, "ebb", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(d) })
	}
	for name, tt := range map[string]struct {
		text, says string
		fatal      bool
	}{
		"expired":       {until(-time.Minute), "has expired on", true},
		"soon":          {until(time.Minute), "expires on", false},
		"no PEM":        {"canary-key", "whole PEM blocks", true},
		"not its key":   {strings.Replace(until(time.Hour), "-----BEGIN PRIVATE", clientcerttest.KeyPEM(t, clientcerttest.Key(t))+"-----BEGIN PRIVATE", 1), "more than one private key", true},
		"of somewhere":  {clientcerttest.PEM(a.Root) + clientcerttest.KeyPEM(t, clientcerttest.Key(t)), "does not match the first", true},
		"without a key": {clientcerttest.PEM(a.Root), "needs a certificate and its private key", true},
	} {
		d := driver(t, certified(), vaultOf(t, "mtls", tt.text))
		f := d.CheckSetup(t.Context())
		if len(f) != 1 || f[0].Fatal != tt.fatal || !strings.Contains(f[0].What, tt.says) || f[0].Remedy == "" || strings.Contains(f[0].What, "canary") || tt.fatal && f[0].Remedy != "ebb secrets put mtls < file" {
			t.Errorf("%s: %+v", name, f)
		}
		_, err := d.Mint(t.Context(), grant("stripe:charges:read"))
		if errors.Is(err, provider.ErrRefused) != tt.fatal || errors.Is(err, clientcert.ErrUnusable) != tt.fatal {
			t.Errorf("%s: Mint: %v", name, err)
		}
		if _, err := d.Presents(t.Context(), request(t, http.MethodGet, "https://api.example.com/v1/charges"), lease("stripe:charges:read")); errors.Is(err, clientcert.ErrUnusable) != tt.fatal {
			t.Errorf("%s: Presents: %v", name, err)
		}
	}
	d := driver(t, certified(), vaultOf(t, "another", canary))
	if f := d.CheckSetup(t.Context()); len(f) != 1 || !f[0].Fatal || f[0].What != "The client certificate does not exist." || f[0].Remedy != "ebb secrets put mtls < file" {
		t.Errorf("none: %+v", f)
	}
	if _, err := d.Mint(t.Context(), grant("stripe:charges:read")); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("none: %v", err)
	}
}

func TestConfigsOfCertificates(t *testing.T) {
	t.Parallel()
	s := vaultOf(t, "mtls", canary)
	for name, tt := range map[string]struct {
		change func(*static.Config)
		says   string // "" = it is taken
	}{
		"alone":                     {func(*static.Config) {}, ""},
		"with a key":                {func(c *static.Config) { c.Secret, c.Inject = "stripe", static.Place{Header: "X-Api-Key"} }, ""},
		"nothing":                   {func(c *static.Config) { c.ClientCertificate = &static.Kept{} }, "client_certificate.secret, or client_certificate.vault"},
		"twice":                     {func(c *static.Config) { c.ClientCertificate.Vault = &static.KV{} }, "client_certificate.secret, or client_certificate.vault"},
		"no name":                   {func(c *static.Config) { c.ClientCertificate.Secret = "../x" }, "client_certificate.secret"},
		"no field":                  {func(c *static.Config) { c.ClientCertificate = &static.Kept{Vault: &static.KV{Path: "x"}} }, "client_certificate.vault.field"},
		"no login":                  {func(c *static.Config) { c.ClientCertificate = &static.Kept{Vault: &static.KV{Path: "x", Field: "pem"}} }, "client_certificate.vault"},
		"no place":                  {func(c *static.Config) { c.Secret = "stripe" }, "inject"},
		"no secret":                 {func(c *static.Config) { c.Inject = static.Place{Header: "X-Api-Key"} }, "inject: there is no secret"},
		"no certificate, no secret": {func(c *static.Config) { c.ClientCertificate = nil }, "secret, or vault"},
	} {
		c := certified()
		tt.change(&c)
		_, err := static.New("stripe", c, s, nil)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
	if _, err := static.New("stripe", certified(), nil, nil); err == nil || !strings.Contains(err.Error(), "client_certificate.secret") {
		t.Errorf("accepted without a secret store: %v", err)
	}
}
