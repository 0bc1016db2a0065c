package client_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// A sandbox lists its credentials and revokes one by id. An id of another task
// has no effect.
//
//ebb:invariant I2 The list of credentials that a sandbox can read contains only the credentials issued to that sandbox
func TestOwnCredentials(t *testing.T) {
	t.Parallel()
	h := newFixture(t, false)
	_, mine := h.enrolled(nil)
	_, theirs := h.enrolled(nil)
	ctx := t.Context()
	var names []string
	for _, s := range []*client.Sandbox{mine, theirs} {
		cred, err := s.Token(ctx, client.TokenRequest{Scope: readScope, Tool: "git"})
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.Credentials(ctx)
		if err != nil || len(list) != 1 || list[0].LeaseID != cred.LeaseID || list[0].Scope != cred.Scope || list[0].State != wire.LeaseLive || list[0].Tool != "git" || list[0].ExpiresAt.IsZero() {
			t.Fatalf("given %+v, %v", list, err)
		}
		names = append(names, cred.LeaseID)
	}
	for _, name := range []string{names[1], "lse_", "nonsense", names[0]} {
		if err := mine.RevokeLease(ctx, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for s, want := range map[*client.Sandbox]wire.LeaseState{mine: wire.LeaseRevoked, theirs: wire.LeaseLive} {
		if list, err := s.Credentials(ctx); err != nil || list[0].State != want {
			t.Errorf("%+v, %v, want %s", list, err, want)
		}
	}
}

// Ids of credentials are written to lines and URLs, so invalid ones are
// refused.
func TestOwnCredentialsHostileNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "lse_1\n", "lse 1", "lse_\u202e1"} {
		f, key := newFake(t, sandboxID, time.Now)
		f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			answer(w, 200, map[string]any{"items": []any{map[string]any{"lease_id": name, "scope": "orders:eu/42:read"}}})
		}
		if list, err := f.sandbox(t, key, "TT").Credentials(t.Context()); err == nil {
			t.Errorf("%q passed: %+v", name, list)
		}
	}
}
