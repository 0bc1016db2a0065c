package jose_test

import (
	"crypto"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	gojose "github.com/go-jose/go-jose/v4"

	"github.com/ebb-broker/ebb/attest/jose"
)

func TestVerifyAccepts(t *testing.T) {
	t.Parallel()
	key := p256(t)
	pub := newKey(t, "k1", &key.PublicKey)
	for name, token := range map[string]string{
		"plain":             forge(t, key, goodHeader, payload(t, nil)),
		"no kid":            forge(t, key, `{"alg":"ES256","typ":"JWT"}`, payload(t, nil)),
		"no typ":            forge(t, key, `{"alg":"ES256","kid":"k1"}`, payload(t, nil)),
		"application/jwt":   forge(t, key, `{"typ":"Application/jwt","alg":"ES256"}`, payload(t, nil)),
		"unknown header":    forge(t, key, `{"alg":"ES256","x5t":"AA","foo":{"bar":[1]}}`, payload(t, nil)),
		"unknown claims":    forge(t, key, goodHeader, payload(t, map[string]any{"Custom": 1, "nested": map[string]any{"SUB": 1}})),
		"aud array":         forge(t, key, goodHeader, payload(t, map[string]any{"aud": []string{audience}})),
		"fractional dates":  forge(t, key, goodHeader, payload(t, map[string]any{"exp": float64(epoch.Unix()) + 60.5})),
		"iat within leeway": forge(t, key, goodHeader, payload(t, map[string]any{"iat": epoch.Add(5 * time.Second).Unix()})),
		"exp within leeway": forge(t, key, goodHeader, payload(t, map[string]any{"iat": epoch.Add(-time.Minute).Unix(), "exp": epoch.Add(-4 * time.Second).Unix()})),
		"blanks in JSON":    forge(t, key, " "+goodHeader, payload(t, nil)+"\n"),
	} {
		c, err := jose.Verify(token, profile(), one(pub), epoch)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Issuer != issuer || c.Subject != "sandbox-1" || c.ID != "j1" || c.Expiry.IsZero() || c.Header.Alg != jose.ES256 {
			t.Errorf("%s: got %+v", name, c)
		}
	}
}

func TestEd25519Names(t *testing.T) {
	t.Parallel()
	key := ed(t)
	pub := newKey(t, "", key.Public())
	for _, alg := range []string{"EdDSA", "Ed25519"} {
		for _, allowed := range []jose.Alg{jose.EdDSA, jose.Ed25519} {
			p := profile()
			p.Algs = []jose.Alg{allowed}
			if _, err := jose.Verify(forge(t, key, `{"alg":"`+alg+`"}`, payload(t, nil)), p, one(pub), epoch); err != nil {
				t.Errorf("alg %s, allowed %s: %v", alg, allowed, err)
			}
		}
	}
}

func TestMaxAge(t *testing.T) {
	t.Parallel()
	key := p256(t)
	p := profile()
	p.MaxAge = 10 * time.Second
	for name, change := range map[string]map[string]any{
		"old":    {"iat": epoch.Add(-16 * time.Second).Unix()},
		"no iat": {"iat": nil},
	} {
		_, err := jose.Verify(forge(t, key, goodHeader, payload(t, change)), p, one(newKey(t, "k1", &key.PublicKey)), epoch)
		if e, ok := errors.AsType[*jose.Error](err); !ok || e.Reason != jose.ReasonLifetime {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestClaimAccess(t *testing.T) {
	t.Parallel()
	body := payload(t, map[string]any{"task_id": "t-1", "Custom": "c", "n": 3, "escaped": "a\"\u00e9\n"})
	u, err := jose.Parse(forge(t, p256(t), goodHeader, body), jose.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	c := u.Claims()
	var own struct {
		TaskID string `json:"task_id"`
		Custom string `json:"custom"`
	}
	if err := c.Decode(&own); err != nil || own.TaskID != "t-1" || own.Custom != "" {
		t.Errorf("Decode matches names exactly: got %+v, %v", own, err)
	}
	if s, ok := c.String("n"); ok || s != "" {
		t.Errorf("String of a number: got %q, %v", s, ok)
	}
	if s, ok := c.String("escaped"); !ok || s != "a\"\u00e9\n" {
		t.Errorf("String: got %q, %v", s, ok)
	}
	var n int
	if err := c.DecodeClaim("n", &n); err != nil || n != 3 {
		t.Errorf("DecodeClaim: got %d, %v", n, err)
	}
	for _, err := range []error{c.DecodeClaim("absent", &n), c.DecodeClaim("task_id", &n), c.Decode(&n)} {
		if !errors.Is(err, jose.ErrToken) || strings.Contains(err.Error(), "t-1") {
			t.Errorf("got %v, want ErrToken without the value", err)
		}
	}
	if raw, ok := c.Raw("n"); !ok || string(raw) != "3" || c.Has("nope") || string(c.Payload()) != body {
		t.Errorf("Raw: got %s, %v", raw, ok)
	}
}

func TestConfirmation(t *testing.T) {
	t.Parallel()
	const d = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
	for _, tc := range []struct {
		cnf      any
		jkt, x5t string
		bad      bool
	}{
		{nil, "", "", false},
		{map[string]any{"jkt": d}, d, "", false},
		{map[string]any{"x5t#S256": d}, "", d, false},
		{map[string]any{"jkt": d, "x5t#S256": d}, "", "", true},
		{map[string]any{}, "", "", true},
		{map[string]any{"JKT": d}, "", "", true},
		{map[string]any{"jkt": ""}, "", "", true},
		{map[string]any{"jkt": d[1:]}, "", "", true},
		{map[string]any{"jkt": d + "\n"}, "", "", true},
		{map[string]any{"jkt": 1}, "", "", true},
		{map[string]any{"jwk": map[string]any{}}, "", "", true},
		{d, "", "", true},
		{[]any{}, "", "", true},
	} {
		u, err := jose.Parse(forge(t, ed(t), `{"alg":"EdDSA"}`, payload(t, map[string]any{"cnf": tc.cnf})), jose.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		jkt, x5t, err := u.Claims().Confirmation()
		if jkt != tc.jkt || x5t != tc.x5t || errors.Is(err, jose.ErrToken) != tc.bad {
			t.Errorf("%v: got %q, %q, %v", tc.cnf, jkt, x5t, err)
		}
	}
}

// remote is a key that is not in this process.
type remote struct{ crypto.Signer }

func (r remote) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return r.Signer.Sign(rand, digest, opts)
}

func TestSign(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]jose.Signer{
		"ES256": p256(t), "EdDSA": ed(t), "RS256": rsaKey(),
		"remote ES256": remote{p256(t)}, "remote EdDSA": remote{ed(t)}, "remote RS256": remote{rsaKey()},
	} {
		for range 20 { // short r or s must be padded
			token, err := jose.Sign(s, jose.SignHeader{Type: "at+jwt", KID: "k1"}, good())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			p := profile()
			p.Types = []string{"at+jwt"}
			c, err := jose.Verify(token, p, one(newKey(t, "k1", s.Public())), epoch)
			if err != nil || c.Subject != "sandbox-1" || c.Header.Type != "at+jwt" || c.Header.KID != "k1" {
				t.Fatalf("%s: got %+v, %v", name, c, err)
			}
			theirs, err := gojose.ParseSignedCompact(token, []gojose.SignatureAlgorithm{gojose.ES256, gojose.EdDSA, gojose.RS256})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if body, err := theirs.Verify(s.Public()); err != nil || len(body) == 0 {
				t.Fatalf("%s: go-jose: %v", name, err)
			}
		}
	}
}

func TestSignDeterministic(t *testing.T) {
	t.Parallel()
	key := ed(t)
	a, errA := jose.Sign(key, jose.SignHeader{Type: "at+jwt"}, good())
	b, errB := jose.Sign(key, jose.SignHeader{Type: "at+jwt"}, good())
	if a != b || errA != nil || errB != nil {
		t.Errorf("got %s and %s", a, b)
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	if _, err := jose.Sign(ed(t), jose.SignHeader{}, good()); err == nil {
		t.Error("no type: signed")
	}
	if _, err := jose.Sign(ed(t), jose.SignHeader{Type: "JWT"}, func() {}); err == nil {
		t.Error("claims that are not JSON: signed")
	}
	if _, err := jose.Sign(remote{failing{p256(t)}}, jose.SignHeader{Type: "JWT"}, good()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("signer that fails: got no cause")
	}
}

type failing struct{ crypto.Signer }

func (failing) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, io.ErrUnexpectedEOF
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"": true, "a b": true, "é": true, "日本": true, "\ufffd": true, "a\tb": false, "\x00": false, "\x7f": false,
		"\u0085": false, "\u200b": false, "\u202e": false, "\u2066": false, "\ufeff": false, "\u2028": false, "\u00ad": false,
		"\xff": false, "ok\xc3": false, "\U000e0041": false,
	} {
		if got := jose.Plain(s); got != want {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	}
}

func TestLooksLikeJWT(t *testing.T) {
	t.Parallel()
	got := []bool{jose.LooksLikeJWT("eyJh.e30.AA"), jose.LooksLikeJWT("ebb_tkt_abc"), jose.LooksLikeJWT("eyJh.e30"), jose.LooksLikeJWT("a.b.c")}
	if want := []bool{true, false, false, false}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestCheck: Check applies the profile without the signature, before the issuer is asked about
// the token.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change map[string]any
		reason jose.Reason
	}{
		"whoever signed": {nil, ""},
		"audience":       {map[string]any{"aud": "other"}, jose.ReasonAudience},
		"expired":        {map[string]any{"exp": epoch.Add(-time.Hour).Unix()}, jose.ReasonExpired},
	} {
		u, err := jose.Parse(forge(t, p256(t), goodHeader, payload(t, tt.change)), jose.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := u.Check(profile(), epoch)
		e, _ := errors.AsType[*jose.Error](err)
		if tt.reason == "" && (err != nil || c == nil) || tt.reason != "" && (c != nil || e == nil || e.Reason != tt.reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
