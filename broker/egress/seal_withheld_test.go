package egress_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/issuance"
)

// TestAnswersThatAreWithheld: a response that can be read in several ways reaches no sandbox, and
// leaves no usable credential.
//
//ebb:invariant I8 A response with credentials to seal is withheld if JSON parsers could read it in two ways, such as with duplicate names
func TestAnswersThatAreWithheld(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	if _, err := k.x.s.Ask(t, tokenScopes); err != nil {
		t.Fatal(err)
	}
	pad := func(n int) string {
		const frame = `{"access_token":"` + made + `","pad":""}`
		return `{"access_token":"` + made + `","pad":"` + strings.Repeat("x", n-len(frame)) + `"}`
	}
	long := strings.Repeat("x", 8<<10+1)
	for name, tt := range map[string]struct{ body, reason string }{
		"largest":               {pad(64 << 10), ""},
		"too large":             {pad(64<<10 + 1), "seal_too_large"},
		"twice":                 {`{"access_token":"` + made + `","access_token":"` + made + `x"}`, "seal_ambiguous"},
		"twice, escaped":        {`{"access_token":"` + made + `","\u0061ccess_token":"` + made + `x"}`, "seal_ambiguous"},
		"twice, another":        {`{"access_token":"` + made + `","a":1,"a":2}`, "seal_ambiguous"},
		"nested":                {`{"data":{"access_token":"` + made + `"}}`, "seal_ambiguous"},
		"nested, escaped":       {`{"access_token":"` + made + `","data":[{"x":{"id\u005ftoken":"` + made + `y"}}]}`, "seal_ambiguous"},
		"another case":          {`{"Access_Token":"` + made + `"}`, "seal_ambiguous"},
		"a letter like s":       {`{"acce\u017fs_token":"` + made + `"}`, "seal_ambiguous"},
		"number":                {`{"access_token":1234567890123}`, "seal_bad_value"},
		"null":                  {`{"access_token":null}`, "seal_bad_value"},
		"object":                {`{"access_token":{"value":"` + made + `"}}`, "seal_bad_value"},
		"array":                 {`{"access_token":["` + made + `"]}`, "seal_bad_value"},
		"second one is none":    {`{"access_token":"` + made + `","id_token":7}`, "seal_bad_value"},
		"empty":                 {`{"access_token":""}`, "seal_bad_value"},
		"short":                 {`{"access_token":"canary7"}`, "seal_bad_value"},
		"long":                  {`{"access_token":"` + long + `"}`, "seal_bad_value"},
		"next header":           {`{"access_token":"` + made + `\r\nX-Admin: 1"}`, "seal_bad_value"},
		"space":                 {`{"access_token":"` + made + ` x"}`, "seal_bad_value"},
		"not ASCII":             {`{"access_token":"` + made + `\u00e9"}`, "seal_bad_value"},
		"placeholder":           {`{"access_token":"ebb-placeholder.lse_0123456789"}`, "seal_bad_value"},
		"invalid UTF-8":         {"{\"access_token\":\"" + made + "\xff\"}", "seal_not_json"},
		"lone surrogate":        {`{"access_token":"` + made + `\ud800"}`, "seal_not_json"},
		"UTF-8 with a mark":     {"\xef\xbb\xbf{\"access_token\":\"" + made + "\"}", "seal_not_json"},
		"UTF-16":                {"{\x00\"\x00a\x00", "seal_not_json"},
		"form":                  {"access_token=" + made + "&token_type=bearer", "seal_not_json"},
		"no object":             {`["` + made + `"]`, "seal_not_json"},
		"string":                {`"` + made + `"`, "seal_not_json"},
		"more behind":           {`{"access_token":"` + made + `"}{}`, "seal_not_json"},
		"half":                  {`{"access_token":"` + made + `"`, "seal_not_json"},
		"nothing":               {``, "seal_not_json"},
		"for no time":           {`{"access_token":"` + made + `","expires_in":0}`, "seal_bad_lifetime"},
		"over":                  {`{"access_token":"` + made + `","expires_in":-1}`, "seal_bad_lifetime"},
		"half a second":         {`{"access_token":"` + made + `","expires_in":1.5}`, "seal_bad_lifetime"},
		"no number":             {`{"access_token":"` + made + `","expires_in":"3600"}`, "seal_bad_lifetime"},
		"longer than all is":    {`{"access_token":"` + made + `","expires_in":9223372036854775807}`, "seal_bad_lifetime"},
		"said in its own rest":  {`{"access_token":":\"1\",\"x_y_z","a":"1","x_y_z":""}`, "seal_ambiguous"},
		"deep":                  {`{"access_token":"` + made + `","a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "seal_not_json"},
		"JSON inside of a text": {`{"access_token":"` + made + `","a":"{\"id_token\":\"canary_inside\"}"}`, ""},
	} {
		k.says(tt.body)
		res, got := k.login(t, k.x)
		if tt.reason == "" {
			if res.StatusCode != http.StatusOK || strings.Contains(got, "canary") || !strings.Contains(got, egress.Prefix) {
				t.Errorf("%s: %d %.200s", name, res.StatusCode, got)
			}
			k.endSealed(t)
			continue
		}
		if res.StatusCode != http.StatusBadGateway || refused(t, got).Reason != tt.reason {
			t.Errorf("%s: %d %.200s, want %s", name, res.StatusCode, got, tt.reason)
		}
		for _, l := range k.sealedLeases(t, k.x.s.Task.ID) {
			if l.State == broker.LeaseLive || l.State == broker.LeaseIntent || l.RevokedBy == issuance.Self && l.Upstream.Handle != "" {
				t.Errorf("%s: left a lease that is %s", name, l.State)
			}
		}
	}
}

// endSealed revokes the credentials of responses.
func (k *tokens) endSealed(t *testing.T) {
	t.Helper()
	for _, l := range k.sealedLeases(t, k.x.s.Task.ID) {
		if l.State == broker.LeaseLive {
			if _, err := k.Broker.RevokeLease(t.Context(), k.Principals[brokertest.Operator], l.ID, "over"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
