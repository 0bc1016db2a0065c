package dpop_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
)

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// proof is a proof to be spoilt. A nil member is removed.
type proof struct{ header, claims map[string]any }

func (p proof) sign(t testing.TB, key crypto.Signer) string {
	t.Helper()
	pub, err := jose.NewKey("", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := jose.MarshalPublicJWK(pub)
	if err != nil {
		t.Fatal(err)
	}
	header := map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": json.RawMessage(jwk)}
	claims := map[string]any{"jti": "j1", "htm": "POST", "htu": tokenURL, "iat": epoch.Unix()}
	var m jwt.SigningMethod = jwt.SigningMethodES256
	switch key.(type) {
	case ed25519.PrivateKey:
		header["alg"], m = "EdDSA", jwt.SigningMethodEdDSA
	case *rsa.PrivateKey:
		header["alg"], m = "RS256", jwt.SigningMethodRS256
		if p.header["alg"] == "PS256" {
			m = jwt.SigningMethodPS256
		}
	}
	maps.Copy(header, p.header)
	maps.Copy(claims, p.claims)
	none := func(_ string, v any) bool { return v == nil }
	maps.DeleteFunc(header, none)
	maps.DeleteFunc(claims, none)
	h, errH := json.Marshal(header)
	c, errC := json.Marshal(claims)
	if errH != nil || errC != nil {
		t.Fatal(errH, errC)
	}
	input := b64(string(h)) + "." + b64(string(c))
	sig, err := m.Sign(input, key)
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func ath(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// TestRefused is A33 to A44 and A52, H25 to H40, and the OIDF
// negative list.
func TestRefused(t *testing.T) {
	t.Parallel()
	key, other := ecKey(t), ecKey(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	h := func(m map[string]any) []string { return []string{proof{header: m}.sign(t, key)} }
	c := func(m map[string]any) []string { return []string{proof{claims: m}.sign(t, key)} }
	good := proof{}.sign(t, key)
	part := strings.Split(good, ".")
	private := json.RawMessage(`{"kty":"EC","crv":"P-256","x":"l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs","y":"9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA","d":"AA"}`)
	otherJWK, err := jose.MarshalPublicJWK(jose.Key{Public: &other.PublicKey})
	if err != nil {
		t.Fatal(err)
	}
	at := dpop.Request{AccessToken: "token-A"}

	for _, tc := range []struct {
		name   string
		values []string
		r      dpop.Request
		reason dpop.Reason
	}{
		{"H25 no proof", nil, dpop.Request{}, dpop.ReasonMissing},
		{"A33 H26 two headers", []string{good, good}, dpop.Request{}, dpop.ReasonSeveral},
		{"H26 two in one", []string{good + ", " + good}, dpop.Request{}, dpop.ReasonToken},
		{"H26 trailing comma", []string{good + ","}, dpop.Request{}, dpop.ReasonToken},
		{"A34 empty", []string{""}, dpop.Request{}, dpop.ReasonToken},
		{"A34 garbage", []string{"garbage"}, dpop.Request{}, dpop.ReasonToken},
		{"A34 trailing blank", []string{good + " "}, dpop.Request{}, dpop.ReasonToken},
		{"A35 no jti", c(map[string]any{"jti": nil}), dpop.Request{}, dpop.ReasonClaims},
		{"A35 no htm", c(map[string]any{"htm": nil}), dpop.Request{}, dpop.ReasonClaims},
		{"A35 no htu", c(map[string]any{"htu": nil}), dpop.Request{}, dpop.ReasonClaims},
		{"A35 no iat", c(map[string]any{"iat": nil}), dpop.Request{}, dpop.ReasonClaims},
		{"A35 jti number", c(map[string]any{"jti": 1}), dpop.Request{}, dpop.ReasonClaims},
		{"A35 jti empty", c(map[string]any{"jti": ""}), dpop.Request{}, dpop.ReasonClaims},
		{"A35 iat string", c(map[string]any{"iat": "1800000000"}), dpop.Request{}, dpop.ReasonClaims},
		{"A35 htm array", c(map[string]any{"htm": []string{"POST"}}), dpop.Request{}, dpop.ReasonClaims},
		{"A36 typ JWT", h(map[string]any{"typ": "JWT"}), dpop.Request{}, dpop.ReasonToken},
		{"A36 typ at+jwt", h(map[string]any{"typ": "at+jwt"}), dpop.Request{}, dpop.ReasonToken},
		{"A36 no typ", h(map[string]any{"typ": nil}), dpop.Request{}, dpop.ReasonToken},
		{"A37 H34 none", []string{b64(`{"typ":"dpop+jwt","alg":"none","jwk":`+string(otherJWK)+`}`) + "." + part[1] + "." + part[2]}, dpop.Request{}, dpop.ReasonToken},
		{"A37 H34 HS256", h(map[string]any{"alg": "HS256"}), dpop.Request{}, dpop.ReasonToken},
		{"A37 RS256 not in the list", []string{proof{}.sign(t, rsaKey)}, dpop.Request{}, dpop.ReasonToken},
		{"A37 no alg", h(map[string]any{"alg": nil}), dpop.Request{}, dpop.ReasonToken},
		{"A38 other jwk", h(map[string]any{"jwk": json.RawMessage(otherJWK)}), dpop.Request{}, dpop.ReasonSignature},
		{"A38 other signature", []string{part[0] + "." + part[1] + "." + strings.Split(c(map[string]any{"jti": "j2"})[0], ".")[2]}, dpop.Request{}, dpop.ReasonSignature},
		{"A39 H33 private jwk", h(map[string]any{"jwk": private}), dpop.Request{}, dpop.ReasonToken},
		{"A39 H33 symmetric jwk", h(map[string]any{"jwk": map[string]any{"kty": "oct", "k": "AA"}}), dpop.Request{}, dpop.ReasonToken},
		{"A39 no jwk", h(map[string]any{"jwk": nil}), dpop.Request{}, dpop.ReasonToken},
		{"A39 jwk string", h(map[string]any{"jwk": string(otherJWK)}), dpop.Request{}, dpop.ReasonToken},
		{"H33 jwk of another alg", h(map[string]any{"alg": "EdDSA"}), dpop.Request{}, dpop.ReasonToken},
		{"H5 kid and jku", h(map[string]any{"jku": "http://169.254.169.254/"}), dpop.Request{}, dpop.ReasonToken},
		{"H8 crit", h(map[string]any{"crit": []string{"x"}}), dpop.Request{}, dpop.ReasonToken},
		{"A40 htm other", c(map[string]any{"htm": "GET"}), dpop.Request{}, dpop.ReasonMethod},
		{"A40 htm lower case", c(map[string]any{"htm": "post"}), dpop.Request{}, dpop.ReasonMethod},
		{"A40 H29 other path", c(map[string]any{"htu": "https://ebb.example/oauth2/revoke"}), dpop.Request{}, dpop.ReasonURL},
		{"H29 other host", c(map[string]any{"htu": "https://evil.example/oauth2/token"}), dpop.Request{}, dpop.ReasonURL},
		{"H29 other port", c(map[string]any{"htu": "https://ebb.example:8443/oauth2/token"}), dpop.Request{}, dpop.ReasonURL},
		{"H29 other scheme", c(map[string]any{"htu": "http://ebb.example/oauth2/token"}), dpop.Request{}, dpop.ReasonURL},
		{"H29 scheme with port 443", c(map[string]any{"htu": "http://ebb.example:443/oauth2/token"}), dpop.Request{}, dpop.ReasonURL},
		{"H29 path case", c(map[string]any{"htu": "https://ebb.example/OAuth2/token"}), dpop.Request{}, dpop.ReasonURL},
		{"H29 trailing slash", c(map[string]any{"htu": tokenURL + "/"}), dpop.Request{}, dpop.ReasonURL},
		{"H29 double slash", c(map[string]any{"htu": "https://ebb.example//oauth2/token"}), dpop.Request{}, dpop.ReasonURL},
		{"H29 dot segment", c(map[string]any{"htu": "https://ebb.example/x/../oauth2/token"}), dpop.Request{}, dpop.ReasonURL},
		{"H29 percent", c(map[string]any{"htu": "https://ebb.example/%6fauth2/token"}), dpop.Request{}, dpop.ReasonURL},
		{"H29 user information", c(map[string]any{"htu": "https://a@ebb.example/oauth2/token"}), dpop.Request{}, dpop.ReasonURL},
		{"H29 backslash", c(map[string]any{"htu": `https://ebb.example\oauth2/token`}), dpop.Request{}, dpop.ReasonURL},
		{"H29 relative", c(map[string]any{"htu": "/oauth2/token"}), dpop.Request{}, dpop.ReasonURL},
		{"H29 blank", c(map[string]any{"htu": " " + tokenURL}), dpop.Request{}, dpop.ReasonURL},
		{"H29 trailing dot of the host", c(map[string]any{"htu": "https://ebb.example./oauth2/token"}), dpop.Request{}, dpop.ReasonURL},
		{"no URL configured", []string{good}, dpop.Request{URL: "-"}, dpop.ReasonURL},
		{"A42 iat 1 h old", c(map[string]any{"iat": epoch.Add(-time.Hour).Unix()}), dpop.Request{}, dpop.ReasonTime},
		{"A42 iat 1 h ahead", c(map[string]any{"iat": epoch.Add(time.Hour).Unix()}), dpop.Request{}, dpop.ReasonTime},
		{"A42 iat 61 s old", c(map[string]any{"iat": epoch.Add(-61 * time.Second).Unix()}), dpop.Request{}, dpop.ReasonTime},
		{"A42 iat 61 s ahead", c(map[string]any{"iat": epoch.Add(61 * time.Second).Unix()}), dpop.Request{}, dpop.ReasonTime},
		{"exp past", c(map[string]any{"iat": epoch.Add(-50 * time.Second).Unix(), "exp": epoch.Add(-2 * time.Minute).Unix()}), dpop.Request{}, dpop.ReasonTime},
		{"A44 H37 huge jti", c(map[string]any{"jti": strings.Repeat("j", 100_000)}), dpop.Request{}, dpop.ReasonToken},
		{"A44 H37 jti of 257 bytes", c(map[string]any{"jti": strings.Repeat("j", 257)}), dpop.Request{}, dpop.ReasonClaims},
		{"H24 jti with control", c(map[string]any{"jti": "a\nb"}), dpop.Request{}, dpop.ReasonClaims},
		{"A52 H32 no ath", []string{good}, at, dpop.ReasonAth},
		{"A52 H32 ath of another token", c(map[string]any{"ath": ath("token-B")}), at, dpop.ReasonAth},
		{"H32 ath padded", c(map[string]any{"ath": ath("token-A") + "="}), at, dpop.ReasonAth},
		{"H32 ath is the token", c(map[string]any{"ath": "token-A"}), at, dpop.ReasonAth},
		{"H32 ath number", c(map[string]any{"ath": 1}), at, dpop.ReasonAth},
		{"H36 nonce with quotes", c(map[string]any{"nonce": `a"b`}), dpop.Request{}, dpop.ReasonClaims},
		{"H36 nonce with blank", c(map[string]any{"nonce": "a b"}), dpop.Request{}, dpop.ReasonClaims},
		{"H36 nonce empty", c(map[string]any{"nonce": ""}), dpop.Request{}, dpop.ReasonClaims},
		{"H36 nonce number", c(map[string]any{"nonce": 1}), dpop.Request{}, dpop.ReasonClaims},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := dpop.Request{Method: "POST", URL: tokenURL, AccessToken: tc.r.AccessToken, Now: epoch}
			if tc.r.URL != "" {
				r.URL = ""
			}
			got, err := dpop.Check(tc.values, r, dpop.Options{})
			e, typed := errors.AsType[*dpop.Error](err)
			if !errors.Is(err, dpop.ErrProof) || errors.Is(err, dpop.ErrNonce) || !typed || e.Reason != tc.reason || got.JKT != "" {
				t.Fatalf("got %+v, %v; want reason %s", got, err, tc.reason)
			}
			if e.Public == "" || strings.ContainsAny(e.Public, "\"\\\n") {
				t.Errorf("public sentence %q", e.Public)
			}
		})
	}
	if _, err := dpop.Check([]string{good}, dpop.Request{Method: "POST", URL: tokenURL, Now: epoch}, dpop.Options{}); err != nil {
		t.Errorf("OIDF: the good proof at the end: %v", err)
	}
}

// TestAccepted is assertions A41, A42, A48 and A50.
func TestAccepted(t *testing.T) {
	t.Parallel()
	key, edk := ecKey(t), edKey(t)
	c := func(m map[string]any) string { return proof{claims: m}.sign(t, key) }
	h := func(m map[string]any) string { return proof{header: m}.sign(t, key) }
	for name, value := range map[string]string{
		"A41 query and fragment":  c(map[string]any{"htu": tokenURL + "?a=b/c#d"}),
		"A41 upper-case host":     c(map[string]any{"htu": "HTTPS://EBB.Example/oauth2/token"}),
		"A41 default port":        c(map[string]any{"htu": "https://ebb.example:443/oauth2/token"}),
		"A42 10 s old":            c(map[string]any{"iat": epoch.Add(-10 * time.Second).Unix()}),
		"A42 8 s ahead":           c(map[string]any{"iat": epoch.Add(8 * time.Second).Unix()}),
		"A42 60 s old":            c(map[string]any{"iat": epoch.Add(-60 * time.Second).Unix()}),
		"A50 extra":               proof{header: map[string]any{"foo": "bar", "kid": "x"}, claims: map[string]any{"foo": []int{1}, "iss": "x", "aud": "y"}}.sign(t, key),
		"A36 application/":        h(map[string]any{"typ": "application/DPoP+jwt"}),
		"RFC 9864 name":           proof{header: map[string]any{"alg": "Ed25519"}}.sign(t, edk),
		"EdDSA":                   proof{}.sign(t, edk),
		"jti of 256 bytes":        c(map[string]any{"jti": strings.Repeat("j", 256)}),
		"nonce when none is used": c(map[string]any{"nonce": "abc"}),
		"ath without token":       c(map[string]any{"ath": ath("x")}),
	} {
		if _, err := dpop.Check([]string{value}, dpop.Request{Method: "POST", URL: tokenURL + "?q", Now: epoch}, dpop.Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOptionalAlgs(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for alg, want := range map[string]bool{"PS256": true, "RS256": false} {
		_, err := dpop.Check([]string{proof{header: map[string]any{"alg": alg}}.sign(t, key)},
			dpop.Request{Method: "POST", URL: tokenURL, Now: epoch}, dpop.Options{Algs: []jose.Alg{jose.ES256, jose.PS256}})
		if (err == nil) != want {
			t.Errorf("%s: got %v", alg, err)
		}
	}
}

// TestReplayKey is assertion A43: one key for every spelling of one proof, and
// another for another proof.
func TestReplayKey(t *testing.T) {
	t.Parallel()
	key := ecKey(t)
	check := func(value, url string) dpop.Proof {
		t.Helper()
		p, err := dpop.Check([]string{value}, dpop.Request{Method: "POST", URL: url, Now: epoch}, dpop.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	value := proof{}.sign(t, key)
	want := check(value, tokenURL).ReplayKey
	cut := strings.LastIndexByte(value, '.')
	sig, err := base64.RawURLEncoding.DecodeString(value[cut+1:])
	if err != nil {
		t.Fatal(err)
	}
	new(big.Int).Sub(key.Params().N, new(big.Int).SetBytes(sig[32:])).FillBytes(sig[32:])
	if got := check(value[:cut+1]+base64.RawURLEncoding.EncodeToString(sig), tokenURL); got.ReplayKey != want {
		t.Error("the malleable twin has another replay key")
	}
	// Signed anew, with the same jti: still the same claim.
	if got := check(proof{claims: map[string]any{"htu": tokenURL + "?x", "iat": epoch.Add(time.Second).Unix()}}.sign(t, key), "https://EBB.example:443/oauth2/token"); got.ReplayKey != want {
		t.Error("another spelling of the URL has another replay key")
	}
	for name, got := range map[string]dpop.Proof{
		"jti": check(proof{claims: map[string]any{"jti": "j2"}}.sign(t, key), tokenURL),
		"key": check(proof{}.sign(t, ecKey(t)), tokenURL),
		"url": check(proof{claims: map[string]any{"htu": "https://ebb.example/"}}.sign(t, key), "https://ebb.example"),
	} {
		if got.ReplayKey == want || len(got.ReplayKey) != 43 {
			t.Errorf("%s: got replay key %s", name, got.ReplayKey)
		}
	}
	// The claim outlives every moment at which the proof is accepted.
	p := check(value, tokenURL)
	if _, err := dpop.Check([]string{value}, dpop.Request{Method: "POST", URL: tokenURL, Now: p.Until}, dpop.Options{}); !errors.Is(err, dpop.ErrProof) {
		t.Errorf("at Until the proof is still good: %v", err)
	}
}

// TestNonce is assertions A45 to A47 and H36.
func TestNonce(t *testing.T) {
	t.Parallel()
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		t.Fatal(err)
	}
	newNonces := func(key []byte) *dpop.Nonces {
		n, err := dpop.NewNonces(key, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	ours, replica, foreign := newNonces(secret), newNonces(secret), newNonces(make([]byte, 32))
	key := ecKey(t)
	for _, tc := range []struct {
		name  string
		nonce any
		good  bool
	}{
		{"fresh", ours.Issue(epoch), true},
		{"of another replica", replica.Issue(epoch), true},
		{"previous", ours.Issue(epoch.Add(-time.Minute)), true},
		{"A47 none", nil, false},
		{"A46 two slices old", ours.Issue(epoch.Add(-2 * time.Minute)), false},
		{"A46 from the future", ours.Issue(epoch.Add(2 * time.Minute)), false},
		{"H36 of another server", foreign.Issue(epoch), false},
		{"A46 made up", "abc", false},
	} {
		value := proof{claims: map[string]any{"nonce": tc.nonce}}.sign(t, key)
		p, err := dpop.Check([]string{value}, dpop.Request{Method: "POST", URL: tokenURL, Now: epoch}, dpop.Options{Nonce: ours.Check})
		if (err == nil) != tc.good || errors.Is(err, dpop.ErrNonce) == tc.good || errors.Is(err, dpop.ErrProof) {
			t.Errorf("%s: got %v", tc.name, err)
		}
		if tc.good && p.Nonce != tc.nonce {
			t.Errorf("%s: got nonce %q", tc.name, p.Nonce)
		}
	}
	// A bad proof is not told to come back with a nonce.
	if _, err := dpop.Check([]string{proof{claims: map[string]any{"htm": "GET"}}.sign(t, key)}, dpop.Request{Method: "POST", URL: tokenURL, Now: epoch}, dpop.Options{Nonce: ours.Check}); !errors.Is(err, dpop.ErrProof) {
		t.Errorf("bad proof without nonce: got %v", err)
	}
	if n := ours.Issue(epoch); len(n) != 32 || strings.Trim(n, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("A46: %q is not NQCHAR", n)
	}
	for name, bad := range map[string]func() (*dpop.Nonces, error){
		"short key":     func() (*dpop.Nonces, error) { return dpop.NewNonces(secret[:31], time.Minute) },
		"zero lifetime": func() (*dpop.Nonces, error) { return dpop.NewNonces(secret, 0) },
	} {
		if n, err := bad(); n != nil || err == nil {
			t.Errorf("%s: got %v, %v", name, n, err)
		}
	}
}

// FuzzCheck: for an arbitrary header, Check neither panics nor accepts.
func FuzzCheck(f *testing.F) {
	key := ecKey(f)
	f.Add(proof{}.sign(f, key))
	f.Add(proof{header: map[string]any{"alg": "RS256"}}.sign(f, key))
	f.Add("e30.e30.AA")
	f.Fuzz(func(t *testing.T, value string) {
		p, err := dpop.Check([]string{value}, dpop.Request{Method: "GET", URL: tokenURL, Now: epoch}, dpop.Options{})
		if !errors.Is(err, dpop.ErrProof) || p.JKT != "" {
			t.Errorf("got %+v, %v", p, err)
		}
	})
}
