package oauth

import (
	"net/http"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
)

func FuzzAnswer(f *testing.F) {
	f.Add(`{"access_token":"a","token_type":"bearer","expires_in":1,"scope":"x y","refresh_token":"r"}`)
	f.Add(`{"access_token":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := read([]byte(text))
		if err != nil {
			return
		}
		h := http.Header{}
		h.Set("Authorization", "Bearer "+a.access.Reveal())
		if a.access.Empty() || !jose.IsToken68(a.access.Reveal()) || a.lifetime < 0 {
			t.Errorf("%q was read as %+v", text, a)
		}
	})
}
