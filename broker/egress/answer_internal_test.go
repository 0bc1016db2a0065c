package egress

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzReadAnswer: every parser reads an accepted response as an object and finds the same values.
// Neither a credential, nor its member name with another value, is in the text for the sandbox.
func FuzzReadAnswer(f *testing.F) {
	for _, s := range []string{
		`{"access_token":"at_0123456789","expires_in":3600,"scope":"a b"}`, `{"\u0061ccess_token":"at_\u00301234567"}`, `{"a":{"access_token":"x"}}`,
		`{"access_token":"at_0123456789","access_token":"x"}`, `{"x":"\"access_token\":\"at_0123456789\"","access_token":"at_0123456789"}`, `{}`, `{"":[{},[]]}`, "{\"access_token\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := readAnswer(body, []string{"access_token"})
		if err != nil {
			return
		}
		var was, is map[string]any
		if err := json.Unmarshal(body, &was); err != nil {
			t.Fatalf("%q was accepted, but is not a JSON object: %v", body, err)
		}
		value, found := a.values["access_token"]
		if has, there := was["access_token"]; there != found || found && has != value {
			t.Fatalf("%q: found %q", body, value)
		}
		out, err := a.with(map[string]string{"access_token": "stands"}, func(s string) string {
			if !found {
				return s
			}
			return strings.ReplaceAll(s, value, "[redacted]")
		})
		if err != nil {
			return
		}
		if err := json.Unmarshal(out, &is); err != nil || is["access_token"] != "stands" || len(is) > len(was)+1 || found && !strings.Contains("stands[redacted]access_token", value) && strings.Contains(string(out), value) {
			t.Fatalf("%q became %q (%v)", body, out, err)
		}
	})
}
