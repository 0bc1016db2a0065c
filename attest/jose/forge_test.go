package jose_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/ebb-broker/ebb/attest/jose"
)

var epoch = time.Unix(1_800_000_000, 0)

const (
	issuer   = "https://issuer.example"
	audience = "https://ebb.example"
)

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// forge signs any header and payload text, however wrong.
func forge(t testing.TB, key crypto.Signer, header, payload string) string {
	t.Helper()
	input := b64(header) + "." + b64(payload)
	var m jwt.SigningMethod = jwt.SigningMethodES256
	switch key.(type) {
	case ed25519.PrivateKey:
		m = jwt.SigningMethodEdDSA
	case *rsa.PrivateKey:
		m = jwt.SigningMethodRS256
	}
	sig, err := m.Sign(input, key)
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func p256(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ed(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// One RSA key for all tests: making one is slow.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func newKey(t testing.TB, kid string, pub crypto.PublicKey) jose.Key {
	t.Helper()
	k, err := jose.NewKey(kid, pub)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func one(k jose.Key) jose.KeySource {
	return func(h jose.Header) (jose.Key, error) {
		if h.KID != "" && h.KID != k.KID {
			return jose.Key{}, jose.KeyUnknown()
		}
		return k, nil
	}
}

func good() map[string]any {
	return map[string]any{
		"iss": issuer, "sub": "sandbox-1", "aud": audience, "jti": "j1",
		"iat": epoch.Unix(), "exp": epoch.Add(5 * time.Minute).Unix(),
	}
}

// payload prints the good claims with changes; nil removes one.
func payload(t testing.TB, change map[string]any) string {
	t.Helper()
	c := good()
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// with adds text members before the closing brace of an object.
func with(object, more string) string { return strings.TrimSuffix(object, "}") + "," + more + "}" }

const goodHeader = `{"alg":"ES256","typ":"JWT","kid":"k1"}`

func profile() jose.Profile {
	return jose.Profile{Types: []string{"jwt"}, AllowNoType: true, Algs: []jose.Alg{jose.ES256, jose.EdDSA, jose.RS256},
		Issuer: issuer, Audience: audience, Leeway: 5 * time.Second, MaxLifetime: time.Hour}
}

func nested(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }

func crowd(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"c%d":%d`, i, i)
	}
	return b.String()[1:]
}
