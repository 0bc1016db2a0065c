package egress_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/redact"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// token returns a token of n characters.
func token(n int) string {
	raw := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{7})
	_, _ = rng.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)[:n]
}

// TestLongCredentials: JWTs of identity providers, AWS sessions and the longest secrets that can be
// stored are injected, and marked in responses, as they are and in base64, in headers and bodies.
func TestLongCredentials(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("Authorization")
		w.Header().Set("X-Echo", auth)
		_, _ = fmt.Fprintf(w, "you are %s or %s", auth, base64.StdEncoding.EncodeToString([]byte(auth)))
	})
	x := b.sandbox(t)
	c := x.client(t, false)
	for _, n := range []int{1350, 4096, provider.MaxInjected} {
		long := token(n)
		if err := b.secrets.Put(t.Context(), "stripe", secret.New(long)); err != nil {
			t.Fatal(err)
		}
		res, body := send(t, c, "GET", "https://"+b.host+"/v1/charges", "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:read"))
		if res.StatusCode != http.StatusOK || res.Header.Get("X-Echo") != "Bearer "+redact.Mark || !strings.HasPrefix(body, "you are Bearer "+redact.Mark+" or ") || len(body) > 80 {
			t.Errorf("%d bytes: %d, %q, %.200q", n, res.StatusCode, res.Header.Get("X-Echo"), body)
		}
		if seen := b.arrived(); len(seen) == 0 || seen[len(seen)-1].Header.Get("Authorization") != "Bearer "+long {
			t.Errorf("%d bytes: it did not arrive", n)
		}
	}
}
