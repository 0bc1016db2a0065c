package kubernetes

import (
	"encoding/base64"
	"testing"
)

func FuzzClaims(f *testing.F) {
	b64 := base64.RawURLEncoding.EncodeToString
	for _, payload := range []string{
		`{"aud":["a"],"exp":2000000000,"sub":"system:serviceaccount:n:s","kubernetes.io":{"namespace":"n","serviceaccount":{"name":"s"},"secret":{"name":"x","uid":"u"}}}`,
		`{"aud":["a","a"],"exp":1e300}`, `{}`, `null`, `[`, "\xff",
	} {
		f.Add("e30."+b64([]byte(payload))+".c2ln", "a")
	}
	f.Add("..", "")
	acc := Account{Namespace: "n", ServiceAccount: "s"}
	f.Fuzz(func(t *testing.T, token, audience string) {
		at, err := accept(token, acc, []string{audience}, "x", "u")
		if err != nil {
			return
		}
		// An accepted token contains each of the claims explicitly.
		c, err := readClaims(token)
		if err != nil || len(c.Audience) != 1 || c.Audience[0] != audience || c.Kubernetes.Secret != (claimsRef{"x", "u"}) || c.Kubernetes.Namespace != "n" || at.Unix() != c.Expiry {
			t.Errorf("accepted %q: %+v", token, c)
		}
	})
}
