package jose_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	gojose "github.com/go-jose/go-jose/v4"

	"github.com/ebb-broker/ebb/attest/jose"
)

// FuzzParse: Parse never panics, and its errors are the caller's fault. An accepted token has
// only one spelling: decoding and encoding its parts gives the same text.
func FuzzParse(f *testing.F) {
	key := ed(f)
	f.Add(forge(f, key, goodHeader, payload(f, nil)))
	f.Add(forge(f, key, `{"alg":"EdDSA","jwk":`+rfc8037JWK+`}`, payload(f, map[string]any{"aud": []string{"a", "b"}})))
	f.Add("e30.e30.AA")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		u, err := jose.Parse(token, jose.Limits{EmbeddedKey: true})
		if err != nil {
			if u != nil || !errors.Is(err, jose.ErrToken) {
				t.Fatalf("got %v, %v", u, err)
			}
			return
		}
		part := strings.Split(token, ".")
		for i, s := range part {
			b, err := base64.RawURLEncoding.DecodeString(s)
			if err != nil || base64.RawURLEncoding.EncodeToString(b) != s {
				t.Errorf("part %d has another spelling", i)
			}
			if i < 2 && !json.Valid(b) {
				t.Errorf("part %d is not JSON", i)
			}
		}
		if len(part) != 3 || !u.Header().Alg.Valid() {
			t.Errorf("got %d parts, alg %q", len(part), u.Header().Alg)
		}
	})
}

// FuzzHeaders: Parse with a cache of headers returns the same token or the same error as Parse
// without one, for any earlier contents of the cache and any number of repetitions.
func FuzzHeaders(f *testing.F) {
	known, err := jose.NewHeaders(8)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"alg":"EdDSA","typ":"a"}`, `{"alg":"ES256","kid":"k"}`)
	f.Add(`{"alg":"EdDSA","jwk":`+rfc8037JWK+`}`, `{"alg":"none"}`)
	f.Fuzz(func(t *testing.T, one, two string) {
		for _, head := range []string{one, two, one, two} {
			token := b64(head) + "." + b64(`{}`) + ".AA"
			want, wantErr := jose.Parse(token, jose.Limits{EmbeddedKey: true})
			got, err := jose.Parse(token, jose.Limits{EmbeddedKey: true, Headers: known})
			if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Fatalf("%s: got %v, want %v", head, err, wantErr)
			}
			if err == nil && !reflect.DeepEqual(got.Header(), want.Header()) {
				t.Errorf("%s: got %+v, want %+v", head, got.Header(), want.Header())
			}
		}
	})
}

// FuzzPayload reaches deeper than FuzzParse, because the payload is the input. From a payload
// that Parse accepts, encoding/json reads the same registered claims, although it ignores the
// case of names. So no later reader can get other claims.
func FuzzPayload(f *testing.F) {
	f.Add(payload(f, nil))
	f.Add(`{"sub":"a","SUB":"b"}`)
	f.Add(`{"aud":["a"],"exp":1.5e9,"cnf":{"jkt":"x"}}`)
	f.Add("{\"\u017fub\":\"a\"}")
	f.Fuzz(func(t *testing.T, body string) {
		u, err := jose.Parse(b64(`{"alg":"EdDSA"}`)+"."+b64(body)+".AA", jose.Limits{})
		if err != nil {
			return
		}
		var folded struct{ Sub, Iss, Jti string }
		if err := json.Unmarshal([]byte(body), &folded); err != nil {
			t.Fatalf("accepted, but encoding/json says %v", err)
		}
		c := u.Claims()
		if folded.Sub != c.Subject || folded.Iss != c.Issuer || folded.Jti != c.ID {
			t.Errorf("got %q %q %q, encoding/json reads %+v", c.Subject, c.Issuer, c.ID, folded)
		}
	})
}

// FuzzParseJWKS: never panics, and every key it yields is printed and read back
// as itself, by us and by an independent library.
func FuzzParseJWKS(f *testing.F) {
	f.Add([]byte(`{"keys":[` + rfc7638JWK + "," + rfc8037JWK + "," + rfc9449JWK + `]}`))
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AA"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := jose.ParseJWKS(b)
		if err != nil {
			return
		}
		for _, k := range s.Keys() {
			text, err := jose.MarshalPublicJWK(k)
			if err != nil {
				t.Fatal(err)
			}
			again, err := jose.ParseJWK(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			var theirs gojose.JSONWebKey
			if err := theirs.UnmarshalJSON(text); err != nil || !theirs.IsPublic() {
				t.Fatalf("%s: go-jose: %v", text, err)
			}
			a, errA := k.Thumbprint()
			c, errC := again.Thumbprint()
			if a != c || errA != nil || errC != nil || again.KID != k.KID {
				t.Errorf("got %s, want %s", c, a)
			}
		}
	})
}
