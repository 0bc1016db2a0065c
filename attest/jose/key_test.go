package jose_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	gojose "github.com/go-jose/go-jose/v4"

	"github.com/ebb-broker/ebb/attest/jose"
)

const (
	rfc7638JWK = `{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}`
	rfc8037JWK = `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
	rfc9449JWK = `{"kty":"EC","x":"l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs","y":"9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA","crv":"P-256"}`
)

func TestThumbprintVectors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, jwk, want string }{
		{"RFC 7638 section 3.1", rfc7638JWK, "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"},
		{"RFC 8037 appendix A.3", rfc8037JWK, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"},
		{"RFC 9449 section 6.1", rfc9449JWK, "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"},
		{"H33 extra members", strings.Replace(rfc9449JWK, "{", `{"kid":"x","use":"sig","foo":[1,{"bar":2}],`, 1), "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"},
	} {
		k, err := jose.ParseJWK([]byte(tc.jwk))
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if got, err := k.Thumbprint(); got != tc.want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", tc.name, got, err, tc.want)
		}
	}
	if got, err := jose.Thumbprint("a string"); got != "" || err == nil {
		t.Errorf("of no key: got %q, %v", got, err)
	}
}

// TestAgainstGoJOSE: an independent library reads what we print, prints what we
// read, and finds the same thumbprint.
func TestAgainstGoJOSE(t *testing.T) {
	t.Parallel()
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pubs := []crypto.PublicKey{&p384.PublicKey, &p521.PublicKey, &rsaKey().PublicKey, ed(t).Public()}
	for range 300 { // so that a coordinate with leading zeros is among them
		pubs = append(pubs, &p256(t).PublicKey)
	}
	for i, pub := range pubs {
		ours, err := jose.MarshalPublicJWK(newKey(t, "k", pub))
		if err != nil {
			t.Fatal(err)
		}
		var theirs gojose.JSONWebKey
		if err := theirs.UnmarshalJSON(ours); err != nil || !theirs.Valid() || !theirs.IsPublic() || theirs.KeyID != "k" || theirs.Use != "sig" {
			t.Fatalf("key %d: %s: %v", i, ours, err)
		}
		back, err := theirs.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		k, err := jose.ParseJWK(back)
		if err != nil {
			t.Fatalf("key %d: %s: %v", i, back, err)
		}
		sum, err := theirs.Thumbprint(crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := k.Thumbprint(); got != base64.RawURLEncoding.EncodeToString(sum) {
			t.Errorf("key %d: thumbprint %s", i, got)
		}
	}
}

func TestParseJWKRefuses(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	weakJSON, err := (gojose.JSONWebKey{Key: &weak.PublicKey}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	private, err := (gojose.JSONWebKey{Key: p256(t)}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	ec := func(old, repl string) string { return strings.Replace(rfc9449JWK, old, repl, 1) }
	add := func(members string) string { return strings.Replace(rfc9449JWK, "{", "{"+members+",", 1) }
	for name, jwk := range map[string]string{
		"H33 private EC":            string(private),
		"H33 d alone":               add(`"d":"AA"`),
		"H33 d null":                add(`"d":null`),
		"H33 symmetric":             `{"kty":"oct","k":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`,
		"H33 oth":                   strings.Replace(rfc7638JWK, "{", `{"oth":[],`, 1),
		"H33 alg of another family": add(`"alg":"RS256"`),
		"H33 alg none":              add(`"alg":"none"`),
		"unknown kty":               `{"kty":"AKP","pub":"AA"}`,
		"no kty":                    `{"crv":"P-256"}`,
		"kty in capitals":           ec(`"EC"`, `"ec"`),
		"RSA 1024":                  string(weakJSON),
		"RSA e=1":                   strings.Replace(rfc7638JWK, `"AQAB"`, `"AQ"`, 1),
		"RSA e even":                strings.Replace(rfc7638JWK, `"AQAB"`, `"Ag"`, 1),
		"RSA e of 5 bytes":          strings.Replace(rfc7638JWK, `"AQAB"`, `"AQAAAAE"`, 1),
		"RSA e of 32 bits":          strings.Replace(rfc7638JWK, `"AQAB"`, `"_____w"`, 1),
		"RSA n with leading zero":   strings.Replace(rfc7638JWK, `"n":"0vx7`, `"n":"AAAA0vx7`, 1),
		"RSA huge":                  `{"kty":"RSA","e":"AQAB","n":"` + strings.Repeat("_", 5000) + `"}`,
		"off the curve":             ec(`9VE4`, `9VE5`),
		"point at infinity":         `{"kty":"EC","crv":"P-256","x":"` + strings.Repeat("A", 43) + `","y":"` + strings.Repeat("A", 43) + `"}`,
		"short x":                   ec(`l8tF`, ``),
		"curve of another size":     ec(`P-256`, `P-384`),
		"secp256k1":                 ec(`P-256`, `secp256k1`),
		"X25519":                    strings.Replace(rfc8037JWK, "Ed25519", "X25519", 1),
		"Ed25519 short":             strings.Replace(rfc8037JWK, "11qY", "", 1),
		"padding":                   ec(`WBFs"`, `WBFs="`),
		"newline":                   ec(`"l8tF`, `"\nl8tF`),
		"use enc":                   add(`"use":"enc"`),
		"use in capitals":           add(`"use":"SIG"`),
		"key_ops encrypt":           add(`"key_ops":["encrypt"]`),
		"key_ops empty":             add(`"key_ops":[]`),
		"key_ops string":            add(`"key_ops":"verify"`),
		"kid empty":                 add(`"kid":""`),
		"kid long":                  add(`"kid":"` + strings.Repeat("k", 257) + `"`),
		"kid number":                add(`"kid":7`),
		"duplicate x":               add(`"x":"AA"`),
		"look-alike X":              add(`"X":"AA"`),
		"array":                     "[" + rfc9449JWK + "]",
		"trailing":                  rfc9449JWK + "1",
		"empty":                     "",
		"oversized":                 add(`"a":"` + strings.Repeat("a", 9000) + `"`),
	} {
		if k, err := jose.ParseJWK([]byte(jwk)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, k)
		}
	}
}

func TestAlgOfKey(t *testing.T) {
	t.Parallel()
	k, err := jose.ParseJWK([]byte(strings.Replace(rfc8037JWK, "{", `{"alg":"Ed25519","key_ops":["verify","sign"],`, 1)))
	if err != nil || len(k.Algs) != 2 {
		t.Errorf("Ed25519: got %v, %v; want both names", k.Algs, err)
	}
	k, err = jose.ParseJWK([]byte(rfc7638JWK))
	if err != nil || !slices.Equal(k.Algs, []jose.Alg{jose.RS256}) {
		t.Errorf("RSA with alg: got %v, %v", k.Algs, err)
	}
}

func TestParseJWKS(t *testing.T) {
	t.Parallel()
	ecKey := strings.Replace(rfc9449JWK, "{", `{"kid":"ec",`, 1)
	s, err := jose.ParseJWKS(fmt.Appendf(nil, `{"keys":[%s,%s,{"kty":"AKP"},{"kty":"EC","crv":"nope"}],"more":1}`, ecKey, rfc7638JWK))
	if err != nil || len(s.Keys()) != 2 {
		t.Fatalf("got %v, %v; want 2 keys", s.Keys(), err)
	}
	for _, tc := range []struct {
		name string
		h    jose.Header
		kid  string
	}{
		{"by kid", jose.Header{Alg: jose.ES256, KID: "ec"}, "ec"},
		{"by alg alone", jose.Header{Alg: jose.RS256}, "2011-04-29"},
		{"kid of another alg", jose.Header{Alg: jose.RS256, KID: "ec"}, ""},
		{"H7 kid unknown", jose.Header{Alg: jose.ES256, KID: "EC"}, ""},
	} {
		k, err := s.Key(tc.h)
		if k.KID != tc.kid || errors.Is(err, jose.ErrKeyUnknown) != (tc.kid == "") {
			t.Errorf("%s: got %q, %v", tc.name, k.KID, err)
		}
	}
	two, err := jose.NewKeySet(newKey(t, "a", &p256(t).PublicKey), newKey(t, "b", &p256(t).PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Key(jose.Header{Alg: jose.ES256}); !errors.Is(err, jose.ErrToken) || errors.Is(err, jose.ErrKeyUnknown) {
		t.Errorf("H7 no kid with two keys: got %v", err)
	}
	for name, set := range map[string]string{
		"private key":   `{"keys":[` + strings.Replace(rfc9449JWK, "{", `{"d":"AA",`, 1) + `]}`,
		"symmetric key": `{"keys":[{"kty":"oct","k":"AA"}]}`,
		"same kid":      `{"keys":[` + ecKey + "," + ecKey + `]}`,
		"no keys":       `{}`,
		"keys object":   `{"keys":{}}`,
		"keys null":     `{"keys":null}`,
		"KEYS":          `{"KEYS":[]}`,
		"one key":       rfc9449JWK,
		"oversized":     `{"keys":[],"a":"` + strings.Repeat("a", 300<<10) + `"}`,
		"101 keys":      `{"keys":[` + strings.TrimSuffix(strings.Repeat("{},", 101), ",") + `]}`,
		"html":          "<html>",
	} {
		if s, err := jose.ParseJWKS([]byte(set)); err == nil {
			t.Errorf("%s: got %v, want an error", name, s)
		}
	}
	if s, err := jose.ParseJWKS(fmt.Appendf(nil, `{"keys":[%s,%s]}`, strings.Replace(ecKey, "{", `{"use":"jwt-svid",`, 1), rfc8037JWK)); err != nil || len(s.Keys()) != 1 || s.Keys()[0].KID != "" {
		t.Errorf("H17 use jwt-svid: got %v, %v; want only the key without it", s.Keys(), err)
	}
}

func TestMarshalJWKS(t *testing.T) {
	t.Parallel()
	k := newKey(t, "a", &p256(t).PublicKey)
	b, err := jose.MarshalJWKS(k, newKey(t, "b", ed(t).Public()))
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []map[string]any }
	if err := json.Unmarshal(b, &set); err != nil || len(set.Keys) != 2 {
		t.Fatalf("%s: %v", b, err)
	}
	for _, k := range set.Keys {
		if k["use"] != "sig" || k["kid"] == "" || k["alg"] == nil || k["d"] != nil {
			t.Errorf("A67: got %v", k)
		}
	}
	if empty, err := jose.MarshalJWKS(); err != nil || !bytes.Equal(empty, []byte(`{"keys":[]}`)) {
		t.Errorf("got %s, %v", empty, err)
	}
	if _, err := jose.MarshalJWKS(jose.Key{Public: p256(t)}); err == nil {
		t.Error("H64: a private key was printed")
	}
}
