package jwt_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/jwt"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/scopes"
)

const issuer = "https://ebb.example"

type oneKey struct {
	s   jose.Signer
	alg jose.Alg
}

func (k oneKey) Signer(time.Time) (jose.Signer, string, jose.Alg, error) {
	return k.s, "k1", k.alg, nil
}

func grants() func() provider.Grant {
	var n atomic.Int64
	return func() provider.Grant {
		now := time.Now().Truncate(time.Second)
		return provider.Grant{
			LeaseID: fmt.Sprintf("lse_%032x", n.Add(1)), TaskID: "tsk_1", Sandbox: "sbx_1", Subject: "bo@example.com",
			Scopes: scopes.MustParseSet("orders:eu/42:read orders:eu/42:write"), Resource: "https://orders.example/",
			Binding: provider.Binding{JKT: "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}, IssuedAt: now, ExpiresAt: now.Add(time.Minute),
			Txn: "txn_1", Actor: &provider.Actor{Issuer: issuer, Subject: "sbx_1"}, Claims: map[string]string{issuer + "/claims/task_id": "tsk_1", "sub": "root"},
			Details: true,
		}
	}
}

func keysOf(t testing.TB) map[jose.Alg]jose.Signer {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return map[jose.Alg]jose.Signer{jose.ES256: ec, jose.EdDSA: ed, jose.RS256: rs}
}

func TestConformance(t *testing.T) {
	for alg, s := range keysOf(t) {
		t.Run(string(alg), func(t *testing.T) {
			d, err := jwt.New(jwt.Config{Issuer: issuer, Keys: oneKey{s, alg}})
			if err != nil {
				t.Fatal(err)
			}
			providertest.Run(t, providertest.Subject{Driver: d, Grant: grants()})
		})
	}
}

// TestClaims: RFC 9068 section 2.2, RFC 8693 section 4, RFC 9396 section 9.1; assertions 21,
// 30, 48, 58 to 62 of the wire reference.
func TestClaims(t *testing.T) {
	s := keysOf(t)[jose.ES256]
	d, _ := jwt.New(jwt.Config{Issuer: issuer, Keys: oneKey{s, jose.ES256}})
	g := grants()()
	c, err := d.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	key, _ := jose.NewKey("k1", s.Public())
	got, err := jose.Verify(c.Token.Reveal(), jose.Profile{
		Types: []string{"at+jwt"}, Algs: []jose.Alg{jose.ES256}, Issuer: issuer, Audience: g.Resource,
	}, func(jose.Header) (jose.Key, error) { return key, nil }, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got.Subject != "bo@example.com" {
		t.Errorf("sub = %q: a private claim must never replace a registered one", got.Subject)
	}
	if got.ClientID != "sbx_1" || got.ID != g.LeaseID || !got.Expiry.Equal(g.ExpiresAt) || !got.IssuedAt.Equal(g.IssuedAt) {
		t.Errorf("client_id %q jti %q exp %v iat %v", got.ClientID, got.ID, got.Expiry, got.IssuedAt)
	}
	if scope, _ := got.String("scope"); scope != g.Scopes.String() {
		t.Errorf("scope = %q", scope)
	}
	if jkt, x5t, err := got.Confirmation(); err != nil || jkt != g.Binding.JKT || x5t != "" {
		t.Errorf("cnf = %q %q %v", jkt, x5t, err)
	}
	var act map[string]any
	if err := got.DecodeClaim("act", &act); err != nil || act["sub"] != "sbx_1" || act["iss"] != issuer || len(act) != 2 {
		t.Errorf("act = %v %v", act, err)
	}
	var details []map[string]any
	if err := got.DecodeClaim("authorization_details", &details); err != nil || len(details) != 1 || details[0]["type"] != "ebb_credential" {
		t.Errorf("authorization_details = %v %v", details, err)
	}
}

func TestBindingIsExactlyOne(t *testing.T) {
	d, _ := jwt.New(jwt.Config{Issuer: issuer, Keys: oneKey{keysOf(t)[jose.ES256], jose.ES256}})
	for _, b := range []provider.Binding{{}, {JKT: "a", X5T: "b"}} {
		g := grants()()
		g.Binding = b
		if _, err := d.Mint(t.Context(), g); err == nil {
			t.Errorf("minted with binding %+v", b)
		}
	}
	if tr := d.Traits(); tr.Revocability.Class != provider.ClassInstant || tr.ThirdParty {
		t.Errorf("own tokens die at once and live nowhere else: %+v", tr)
	}
}

func BenchmarkMint(b *testing.B) {
	for alg, s := range keysOf(b) {
		b.Run(string(alg), func(b *testing.B) {
			d, _ := jwt.New(jwt.Config{Issuer: issuer, Keys: oneKey{s, alg}})
			next := grants()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Mint(b.Context(), next()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
