package jose_test

import (
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/c2sp/wycheproof"

	"github.com/ebb-broker/ebb/attest/jose"
)

// Vectors that are not followed, with the reason.
var (
	// RFC 7520 examples whose key is labelled with another algorithm than the
	// token: "ES521" does not exist, PS256 and RS256 are swapped. Refused here.
	wrongLabel = []int{346, 347, 350, 351}
	// Marked invalid but byte for byte the valid token of their group.
	identical = []int{367, 370}
	// Valid as JWS with an empty payload, which no JWT has.
	emptyPayload = []int{259, 264, 268, 272, 320, 325}
	// Marked valid but with characters outside base64url (RFC 8725bis forbids them).
	notBase64 = []int{372, 373}
)

func TestWycheproof(t *testing.T) {
	t.Parallel()
	raw, err := fs.ReadFile(wycheproof.TestVectors, "json_web_signature_test.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TestGroups []struct {
			Comment string
			Public  json.RawMessage
			Private json.RawMessage
			Tests   []struct {
				TcID    int
				Comment string
				JWS     json.RawMessage
				Result  string
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	accepted, refused, skipped := 0, 0, 0
	for _, g := range file.TestGroups {
		keyJSON := g.Public
		if keyJSON == nil {
			keyJSON = g.Private
		}
		key, keyErr := jose.ParseJWK(keyJSON)
		symmetric := strings.Contains(string(keyJSON), `"oct"`)
		if symmetric && keyErr == nil {
			t.Errorf("group %s: a symmetric key was accepted", g.Comment)
		}
		for _, tc := range g.Tests {
			if slices.Contains(identical, tc.TcID) {
				skipped++
				continue
			}
			want := tc.Result == "valid" && !symmetric &&
				!slices.Contains(emptyPayload, tc.TcID) && !slices.Contains(notBase64, tc.TcID) && !slices.Contains(wrongLabel, tc.TcID)
			var token string
			err := keyErr
			if json.Unmarshal(tc.JWS, &token) != nil {
				token = string(tc.JWS) // JSON serialisation
			}
			if err == nil {
				err = jose.VerifyJWS(token, key)
			}
			if got := err == nil; got != want {
				t.Errorf("tcId %d (%s, %s): got accepted %v (%v), want %v", tc.TcID, g.Comment, tc.Comment, got, err, want)
			}
			if err == nil {
				accepted++
			} else {
				refused++
			}
		}
	}
	if accepted < 25 || refused < 300 {
		t.Errorf("the vectors were not really run: %d accepted, %d refused", accepted, refused)
	}
	t.Logf("%d accepted, %d refused, %d not followed", accepted, refused, skipped)
}
