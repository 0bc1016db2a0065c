package dpop_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
)

var epoch = time.Unix(1_800_000_000, 0)

const tokenURL = "https://ebb.example/oauth2/token"

func ecKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func edKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]jose.Signer{"ES256": ecKey(t), "EdDSA": edKey(t)} {
		for _, token := range []string{"", "an-access-token"} {
			proof, err := dpop.NewProof(key, "POST", tokenURL+"?x=1#f", token, "", epoch)
			if err != nil {
				t.Fatal(err)
			}
			got, err := dpop.Check([]string{proof}, dpop.Request{Method: "POST", URL: tokenURL, AccessToken: token, Now: epoch.Add(30 * time.Second)}, dpop.Options{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want, err := jose.Thumbprint(key.Public())
			if err != nil || got.JKT != want || got.ReplayKey == "" || !got.Until.After(epoch.Add(time.Minute)) {
				t.Errorf("%s: got %+v, want jkt %s", name, got, want)
			}
		}
	}
}
