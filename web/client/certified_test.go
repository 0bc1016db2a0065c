package client_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/web/client"
)

const certificateType = "urn:ebb:token-type:ssh-certificate"

// A credential that is not an access token: requested with a public key, also
// by the poll, and never sent in an Authorization header.
func TestCertificate(t *testing.T) {
	t.Parallel()
	scope := "ssh:web/bo:login"
	ans := map[string]any{"access_token": "ssh-ed25519-cert-v01@openssh.com AAAA lse_1", "token_type": "N_A", "expires_in": 300, "scope": scope, "issued_token_type": certificateType}
	synctest.Test(t, func(t *testing.T) {
		f, key := newFake(t, sandboxID, time.Now)
		s := f.sandbox(t, key, "TT")
		f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			if len(f.forms) == 1 {
				pending(w)
				return
			}
			answer(w, 200, ans)
		}
		c, err := waiting(s, f, client.TokenRequest{Scope: scope, Wait: true, PublicKey: "ssh-ed25519 BBBB"})
		if err != nil || c.Type != "N_A" || c.Format != certificateType || c.Token.Reveal() != ans["access_token"] {
			t.Fatalf("%+v %v", c, err)
		}
		for i, form := range f.forms {
			if form.Get("public_key") != "ssh-ed25519 BBBB" {
				t.Errorf("request %d: %v", i, form)
			}
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://orders.test/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		calls := len(f.calls)
		if _, err := s.Transport(c, f).RoundTrip(r); err == nil || len(f.calls) != calls {
			t.Errorf("it was sent as an access token: %v", err)
		}
		for member, bad := range map[string]string{"access_token": "ssh a\x1b[2J", "issued_token_type": "a b", "token_type": "mac"} {
			good := ans[member]
			ans[member] = bad
			if _, err := s.Token(t.Context(), client.TokenRequest{Scope: scope}); err == nil {
				t.Errorf("%s %q was taken", member, bad)
			}
			ans[member] = good
		}
	})
}
