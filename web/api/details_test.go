package api_test

import (
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

func detail(identifier string, actions ...string) map[string]any {
	return map[string]any{"type": "ebb_credential", "provider": "orders", "identifier": identifier, "actions": actions}
}

func detailsText(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRFC_A27_A28_H47_BadDetails(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	good := `{"type":"ebb_credential","provider":"orders","identifier":"eu/42","actions":["read"]}`
	deep := strings.Repeat("[", 3000) + strings.Repeat("]", 3000)
	for name, text := range map[string]string{
		"A27 an object":          good,
		"A27 a string":           `"x"`,
		"A27 no JSON":            `[{]`,
		"A27 without type":       `[{"provider":"orders","identifier":"eu/42","actions":["read"]}]`,
		"A27 empty array":        `[]`,
		"A27 null":               `null`,
		"A28 unknown type":       `[{"type":"payment","provider":"orders","identifier":"eu/42","actions":["read"]}]`,
		"A28 unknown field":      `[{"type":"ebb_credential","provider":"orders","identifier":"eu/42","actions":["read"],"limit":1}]`,
		"A28 wrong type":         `[{"type":"ebb_credential","provider":"orders","identifier":"eu/42","actions":"read"}]`,
		"A28 bad value":          `[{"type":"ebb_credential","provider":"orders","identifier":"../42","actions":["read"]}]`,
		"A28 missing field":      `[{"type":"ebb_credential","provider":"orders","actions":["read"]}]`,
		"H47 duplicate member":   `[{"type":"ebb_credential","provider":"mail","provider":"orders","identifier":"eu/42","actions":["read"]}]`,
		"H47 case-folded member": `[{"type":"ebb_credential","provider":"orders","Provider":"mail","identifier":"eu/42","actions":["read"]}]`,
		"H47 deep":               deep,
		"H47 trailing":           "[" + good + "] []",
		"H47 many":               "[" + strings.Repeat(good+",", 16) + good + "]",
		"H47 large":              `[{"type":"ebb_credential","provider":"orders","identifier":"` + strings.Repeat("a", 20<<10) + `","actions":["read"]}]`,
	} {
		b.ask(t, "", "authorization_details", text).want(t, name, 400, "invalid_authorization_details")
	}
	// A body larger than the limit is not parsed.
	b.ask(t, "", "authorization_details", "["+strings.Repeat(good+",", 1<<10)+good+"]").want(t, "H47 larger than any body", 400, "invalid_request")
}

func TestRFC_A29_A30_DetailsAreReturned(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	asked := []any{detail("eu/42", "read"), detail("eu/43", "list", "read")}
	a := b.ask(t, "", "authorization_details", detailsText(t, asked))
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	want := detailsText(t, asked)
	if got := detailsText(t, a.json["authorization_details"]); got != want {
		t.Errorf("A29: got %s, want %s", got, want)
	}
	_, c := claims(t, a.text("access_token"))
	if got := detailsText(t, c["authorization_details"]); got != want {
		t.Errorf("A30: the token has %s", got)
	}
	in := r.introspect(t, a.text("access_token"))
	if got := detailsText(t, in.json["authorization_details"]); got != want {
		t.Errorf("A30: introspection has %s", got)
	}
	if plain := b.ask(t, canRead); plain.json["authorization_details"] != nil {
		t.Errorf("details nobody asked for: %s", plain.body)
	}
}

// A31: the approver sees scope and authorization_details merged.
func TestRFC_A31_MergedForTheApprover(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	a := b.ask(t, "orders:eu/1:write", "authorization_details", detailsText(t, []any{detail("eu/2", "write")}), "completion_mode", "deferred")
	a.want(t, "pending", 400, "authorization_pending")
	if got, want := r.pendingRequest(t)["scope"], "orders:eu/1:write orders:eu/2:write"; got != want {
		t.Errorf("the approver sees %q, want %q", got, want)
	}
	r.approve(t, map[string]any{"scope": "orders:eu/2:write"})
	r.env.Clock.Add(minute)
	got := b.poll(t, a.text("deferral_code"))
	if got.status != 200 || got.text("scope") != "orders:eu/2:write" || !reflect.DeepEqual(got.json["authorization_details"], []any{mapOf(t, detail("eu/2", "write"))}) {
		t.Errorf("A29 narrowed: %d %s", got.status, got.body)
	}
}

func mapOf(t testing.TB, v any) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(detailsText(t, v)), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDetailsLocation(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	d := detail("eu/42", "read")
	d["locations"] = []string{brokertest.Orders}
	if a := b.ask(t, "", "authorization_details", detailsText(t, []any{d}), "resource", brokertest.Orders); a.status != 200 {
		t.Errorf("the right location: %d %s", a.status, a.body)
	}
	d["locations"] = []string{brokertest.Mail}
	b.ask(t, "", "authorization_details", detailsText(t, []any{d})).want(t, "another location", 400, "invalid_target")
}

func TestRFC_A32_TypesInMetadata(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	a := r.do(t, r.request("GET", "/.well-known/oauth-authorization-server", nil))
	if got := detailsText(t, a.json["authorization_details_types_supported"]); got != `["ebb_credential"]` {
		t.Errorf("got %s", got)
	}
}

func TestRFC_A63_H46_Scopes(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	for name, scope := range map[string]string{
		"A63 two default resources": "orders:eu/42:read mail:inbox:read",
		"A63 none":                  "",
		"H46 unknown provider":      "files:a:read",
		"H46 star":                  "*",
		"H46 everything":            "*:**:*",
		"H46 above the ceiling":     "orders:us/1:read",
		"H46 wider than ceiling":    "orders:**:read",
		"H46 newline":               canRead + "\n" + mustAsk,
		"H46 tab":                   canRead + "\t" + mustAsk,
		"H46 quote":                 canRead + `"`,
		"H46 case":                  "Orders:eu/42:read",
		"H46 look-alike":            "orders:eu/42:re\u0430d",
		"H46 two spaces":            canRead + "  " + canRead,
		"H46 dots":                  "orders:eu/../us/1:read",
		"H46 long":                  "orders:" + strings.Repeat("a", 600) + ":read",
	} {
		a := b.ask(t, scope)
		a.want(t, name, 400, "invalid_scope")
		if len(scope) > 8 && strings.Contains(a.body, url.QueryEscape(scope)) {
			t.Errorf("%s: the answer repeats the input: %s", name, a.body)
		}
	}
}
