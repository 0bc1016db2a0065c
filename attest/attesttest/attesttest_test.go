package attesttest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// TestTrapCounts checks the trap itself: a trap that does not count would hide every
// connection that an attestor makes.
func TestTrapCounts(t *testing.T) {
	t.Parallel()
	trap := attesttest.NewTrap(t)
	client := &http.Client{Timeout: time.Minute}
	if resp, err := client.Get(trap.URL); err == nil {
		resp.Body.Close() //nolint:errcheck // test
		t.Error("the trap answered")
	}
	if trap.Dials() == 0 {
		t.Error("a connection was not counted")
	}
}

func TestIssuer(t *testing.T) {
	t.Parallel()
	clock := attesttest.NewClock()
	i := attesttest.NewIssuer(t, clock)
	set, err := jose.ParseJWKS(i.JWKS())
	if err != nil {
		t.Fatal(err)
	}
	p := jose.Profile{Types: []string{"jwt"}, Algs: []jose.Alg{jose.ES256}, Issuer: i.URL, Audience: "a"}
	c, err := jose.Verify(i.Token(attesttest.Claims{"aud": "a", "sub": "s", "x": "y"}), p, set.Key, clock.Now())
	if err != nil || c.Subject != "s" || c.Header.KID != "key-1" {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := jose.Verify(i.Token(attesttest.Claims{"aud": "a", "exp": nil}), p, set.Key, clock.Now()); err == nil {
		t.Error("nil did not remove a claim")
	}
	if kid := i.Rotate(); kid != "key-2" || !strings.Contains(string(i.JWKS()), "key-1") {
		t.Errorf("rotated to %s", kid)
	}
	if i.Retire(); strings.Contains(string(i.JWKS()), "key-1") {
		t.Error("the old key is still published")
	}
}
