package dpop_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
)

// TestKnownHeader: a cached header saves no checks. Each token with it is verified like the
// first one.
func TestKnownHeader(t *testing.T) {
	t.Parallel()
	known, err := jose.NewHeaders(2)
	if err != nil {
		t.Fatal(err)
	}
	key, other := ecKey(t), ecKey(t)
	proof := func(key jose.Signer, url string) string {
		p, err := dpop.NewProof(key, "POST", url, "", "", epoch)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	check := func(proof string) (dpop.Proof, error) {
		return dpop.Check([]string{proof}, dpop.Request{Method: "POST", URL: tokenURL, Now: epoch}, dpop.Options{Headers: known})
	}
	good, stranger := proof(key, tokenURL), proof(other, tokenURL)
	want, err := jose.Thumbprint(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if got, err := check(good); err != nil || got.JKT != want {
			t.Fatalf("round %d: got %q, %v", i, got.JKT, err)
		}
	}
	p, q := strings.Split(good, "."), strings.Split(stranger, ".")
	for name, bad := range map[string]string{
		"another one's signature": p[0] + "." + p[1] + "." + q[2],
		"another one's claims":    p[0] + "." + q[1] + "." + q[2],
		"another one's header":    q[0] + "." + p[1] + "." + p[2],
		"another URL":             proof(key, "https://ebb.example/other"),
		"a part of the header":    p[0][:len(p[0])-4] + "." + p[1] + "." + p[2],
		"a longer header":         p[0] + "AAAA." + p[1] + "." + p[2],
	} {
		for range 2 { // what was refused is not remembered either
			if _, err := check(bad); !errors.Is(err, dpop.ErrProof) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
	if got, err := check(good); err != nil || got.JKT != want {
		t.Errorf("after the attacks: got %q, %v", got.JKT, err)
	}
}

// TestManyKnownHeaders: more clients than the cache has room for, concurrently.
func TestManyKnownHeaders(t *testing.T) {
	t.Parallel()
	known, err := jose.NewHeaders(3)
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	for range 8 {
		key := ecKey(t)
		want, err := jose.Thumbprint(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		proof, err := dpop.NewProof(key, "POST", tokenURL, "", "", epoch)
		if err != nil {
			t.Fatal(err)
		}
		clients.Go(func() {
			for range 50 {
				got, err := dpop.Check([]string{proof}, dpop.Request{Method: "POST", URL: tokenURL, Now: epoch}, dpop.Options{Headers: known})
				if err != nil || got.JKT != want {
					t.Errorf("got %q, %v", got.JKT, err)
				}
			}
		})
	}
	clients.Wait()
}
