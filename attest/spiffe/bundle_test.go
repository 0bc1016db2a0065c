package spiffe_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/spiffe"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

func keySet(keys ...any) []byte {
	if keys == nil {
		keys = []any{}
	}
	b, err := json.Marshal(map[string]any{"keys": keys, "spiffe_sequence": 7, "spiffe_refresh_hint": 300})
	if err != nil {
		panic(err)
	}
	return b
}

// jwk is a public key with labels.
func jwk(t testing.TB, labels ...string) map[string]any {
	t.Helper()
	m := attesttest.PublicJWK(t, newKey(t))
	for i := 0; i < len(labels); i += 2 {
		m[labels[i]] = labels[i+1]
	}
	return m
}

//ebb:invariant I6 A SPIFFE bundle is refused if the key in one of its certificates differs from the key in the JWK
func TestBundles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cert := func(use string, ders ...[]byte) map[string]any {
		m := jwk(t, "use", use)
		var x5c []string
		for _, der := range ders {
			x5c = append(x5c, base64.StdEncoding.EncodeToString(der))
		}
		m["x5c"] = x5c
		// The key and the certificate have to agree.
		for name, v := range attesttest.PublicJWK(t, f.home.key) {
			m[name] = v
		}
		return m
	}
	private := jwk(t, "use", "jwt-svid", "kid", "p")
	private["d"] = base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	many := make([]any, 101)
	for i := range many {
		many[i] = jwk(t, "use", "jwt-svid", "kid", fmt.Sprint(i))
	}
	good := f.home.text()
	for name, tc := range map[string]struct {
		text      []byte
		jwt, x509 int // -1: refused
	}{
		"as go-spiffe prints it": {good, 1, 1},
		"all keys taken back":    {keySet(), 0, 0},
		"other uses":             {keySet(jwk(t, "use", "sig", "kid", "a"), jwk(t, "use", "enc"), jwk(t, "kid", "b"), jwk(t, "use", "wit-svid", "kid", "w")), 0, 0},
		"jwt alone":              {keySet(jwk(t, "use", "jwt-svid", "kid", "a"), jwk(t, "use", "jwt-svid", "kid", "b")), 2, 0},
		"x509 alone":             {keySet(cert("x509-svid", f.home.cert.Raw)), 0, 1},

		"nothing":                  {nil, -1, 0},
		"a page":                   {[]byte("<html>down for maintenance</html>"), -1, 0},
		"null":                     {[]byte("null"), -1, 0},
		"an array":                 {[]byte("[]"), -1, 0},
		"no keys":                  {[]byte("{}"), -1, 0},
		"keys null":                {[]byte(`{"keys":null}`), -1, 0},
		"Keys":                     {[]byte(`{"Keys":[]}`), -1, 0},
		"keys twice":               {[]byte(`{"keys":[],"keys":[]}`), -1, 0},
		"cut":                      {good[:len(good)/2], -1, 0},
		"twice":                    {bytes.Repeat(good, 2), -1, 0},
		"too large":                {append(bytes.Repeat([]byte(" "), 256<<10), good...), -1, 0},
		"nested":                   {[]byte(`{"keys":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`), -1, 0},
		"a key without kid":        {keySet(jwk(t, "use", "jwt-svid")), -1, 0},
		"one kid twice":            {keySet(jwk(t, "use", "jwt-svid", "kid", "a"), jwk(t, "use", "jwt-svid", "kid", "a")), -1, 0},
		"use by another name":      {keySet(jwk(t, "Use", "jwt-svid", "kid", "a")), 0, 0},
		"two uses":                 {keySet(jwk(t, "use", "x509-svid", "Use", "jwt-svid", "kid", "a")), -1, 0},
		"a private key":            {keySet(private), -1, 0},
		"a symmetric key":          {keySet(map[string]any{"kty": "oct", "k": "AAAA", "use": "jwt-svid", "kid": "s"}), -1, 0},
		"a private key beside":     {keySet(jwk(t, "use", "jwt-svid", "kid", "a"), private), -1, 0},
		"x509 without certificate": {keySet(jwk(t, "use", "x509-svid")), -1, 0},
		"x509 with a chain":        {keySet(cert("x509-svid", f.home.cert.Raw, f.home.cert.Raw)), -1, 0},
		"x509 with a leaf": {keySet(func() any {
			m := cert("x509-svid", f.home.issue(leaf(boxID), f.home.cert, f.home.key, f.home.key).Raw)
			return m
		}()), -1, 0},
		"x509 with another key": {keySet(func() any {
			m := jwk(t, "use", "x509-svid")
			m["x5c"] = []string{base64.StdEncoding.EncodeToString(f.home.cert.Raw)}
			return m
		}()), -1, 0},
		"101 keys":         {keySet(many...), -1, 0},
		"a weak key alone": {keySet(jwk(t, "use", "jwt-svid", "kid", "a"), map[string]any{"kty": "RSA", "n": strings.Repeat("w", 171), "e": "AQAB", "use": "jwt-svid", "kid": "weak"}), 1, 0},
	} {
		jwt, x509, err := spiffe.Reads(home, tc.text)
		if tc.jwt < 0 && err == nil || tc.jwt >= 0 && (err != nil || jwt != tc.jwt || x509 != tc.x509) {
			t.Errorf("%s: got %d and %d keys, %v", name, jwt, x509, err)
		}
	}
}

// TestBundlesInFIPSMode: a bundle with certificates is read where there is no SHA-1.
func TestBundlesInFIPSMode(t *testing.T) {
	if !counterpart.FIPSOnly(t) {
		return
	}
	a := newAuthority(t, attesttest.NewClock(), home)
	m := attesttest.PublicJWK(t, a.key)
	m["use"], m["x5c"] = "x509-svid", []string{base64.StdEncoding.EncodeToString(a.cert.Raw)}
	if jwt, x509, err := spiffe.Reads(home, keySet(m, jwk(t, "use", "jwt-svid", "kid", "a"))); jwt != 1 || x509 != 1 || err != nil {
		t.Errorf("got %d and %d keys, %v", jwt, x509, err)
	}
}

// FuzzBundle: an arbitrary response of a bundle endpoint is parsed or refused, without a panic.
func FuzzBundle(f *testing.F) {
	clock := attesttest.NewClock()
	a := newAuthority(f, clock, home)
	f.Add(a.text())
	f.Add(keySet())
	f.Add(keySet(jwk(f, "use", "jwt-svid", "kid", "a", "Use", "x509-svid")))
	f.Fuzz(func(t *testing.T, text []byte) {
		jwt, x509, err := spiffe.Reads(home, text)
		var again struct {
			Keys []map[string]any `json:"keys"`
		}
		if err == nil && (json.Unmarshal(text, &again) != nil || jwt+x509 > len(again.Keys)) {
			t.Errorf("%d and %d keys of %d", jwt, x509, len(again.Keys))
		}
	})
}
