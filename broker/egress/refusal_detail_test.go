package egress_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// refusal is the JSON body of a refusal.
type refusal struct{ Error, Reason, Detail string }

// refused parses a refusal. It must have exactly these members, and consist of printable ASCII.
func refused(t *testing.T, body string) (r refusal) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil || r.Error != "egress_denied" || r.Reason == "" || !strings.HasSuffix(r.Detail, ".") || strings.Trim(body, "\n") != strings.Map(printable, body) {
		t.Errorf("%q is not a refusal: %v", body, err)
	}
	return r
}

// printable drops characters that are not printable ASCII.
func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

// commandForm matches the command in a refusal, with the scope that it requests.
var commandForm = regexp.MustCompile(`ebb token --scope '([^']+)' --reason '[^']+' \(or the tool request_credential of ebb mcp\)`)

// TestRefusalNamesTheScope: a refusal states the request and the reason, and a lease for the scope
// that it names lets the same request through.
//
//ebb:invariant I2 An egress refusal names scopes, and a lease for any one of them lets the refused request or WebSocket through
func TestRefusalNamesTheScope(t *testing.T) {
	t.Parallel()
	_, x, host := public(t)
	c := x.client(t, false)
	read := x.placeholder(t, "stripe:charges:read")
	for name, tt := range map[string]struct {
		method, path, body string
		with               string // a placeholder; "" = none
		reason, why, scope string
	}{
		"none":                  {"GET", "/v1/charges", "", "", "no_placeholder", "it has no placeholder", "stripe:charges:read"},
		"one that is none":      {"GET", "/v1/charges", "", egress.Prefix, "no_credential", "it does not exist", "stripe:charges:read"},
		"for another request":   {"POST", "/v1/charges", "amount=1", read, "not_allowed", "its method and path are not those of the lease's scopes", "stripe:charges:write"},
		"of a public page":      {"GET", "/docs/a/b.html", "", "", "no_placeholder", "it has no placeholder", "web:api.example.com/docs/a/b.html:read"},
		"of a folder":           {"GET", "/docs/b/", "", "", "no_placeholder", "", "web:api.example.com/docs/b/**:read"},
		"of a name of no scope": {"GET", "/docs/c/x%20y", "", "", "no_placeholder", "", "web:api.example.com/docs/c/**:read"},
		"of a wildcard":         {"GET", "/docs/d/*/x", "", "", "no_placeholder", "", "web:api.example.com/docs/d/**:read"},
	} {
		ask := func(placeholder string) (*http.Response, string) {
			t.Helper()
			return send(t, c, tt.method, host+tt.path+"?note=private", tt.body, "Authorization", strings.TrimSpace("Bearer "+placeholder))
		}
		_, body := ask(tt.with)
		got := refused(t, body)
		if got.Reason != tt.reason || !strings.HasPrefix(got.Detail, tt.method+" "+host+tt.path+" was refused: ") || !strings.Contains(got.Detail, tt.why) || strings.Contains(got.Detail, "private") {
			t.Errorf("%s: %+v", name, got)
		}
		m := commandForm.FindStringSubmatch(got.Detail)
		if m == nil || m[1] != tt.scope || !strings.Contains(got.Detail, "The scope "+tt.scope+" covers it.") {
			t.Errorf("%s: %v, want %s: %+v", name, m, tt.scope, got)
			continue
		}
		if res, body := ask(x.placeholder(t, m[1])); res.StatusCode != http.StatusOK {
			t.Errorf("%s: with the scope %s: %s %s", name, m[1], res.Status, body)
		}
	}
}

// TestRefusalNamesTheLeastScope: of several scopes that cover a request the read-only ones come
// first, and the command requests one of them.
func TestRefusalNamesTheLeastScope(t *testing.T) {
	t.Parallel()
	b := newBedOf(t, echo, func(_ *bed, c *static.Config) {
		all := static.Rule{Rule: stricturl.Rule{Methods: []string{"GET", "POST", "DELETE"}, Paths: []string{"/**"}}}
		c.Grants["all"] = map[string]static.Rule{"admin": all, "own": all, "use": all}
	}, func(*brokertest.Config) {})
	_, body := send(t, b.sandbox(t).client(t, true), "GET", "https://"+b.host+"/v1/charges", "")
	if got := refused(t, body); !strings.Contains(got.Detail, "Each of the scopes stripe:charges:read, stripe:all:admin, stripe:all:own covers it. Ask for it: ebb token --scope 'stripe:charges:read' ") {
		t.Errorf("%+v", got)
	}
}

// TestRefusalOfAWebSocket: a lease for the scope that is named for a handshake lets the request
// become a WebSocket.
//
//ebb:invariant I2 An egress refusal names scopes, and a lease for any one of them lets the refused request or WebSocket through
func TestRefusalOfAWebSocket(t *testing.T) {
	t.Parallel()
	b := newBed(t, sockets)
	x := b.sandbox(t)
	read := x.placeholder(t, "stripe:charges:read")
	for _, tt := range []struct{ path, with, reason, next string }{
		{"/ws/a", read, "not_allowed", "The scope stripe:charges:listen covers it. "},
		{"/ws/a", "", "no_placeholder", "The scope stripe:charges:listen covers it. "},
		{"/v1/a", read, "not_allowed", "No scope that the task may ask for covers it. "}, // without the handshake it would be sent
	} {
		out := x.said(t, tt.with, "GET "+tt.path+" HTTP/1.1\r\nHost: H\r\n"+auth+"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n")
		_, body, _ := strings.Cut(out, "\r\n\r\n")
		if got := refused(t, body); got.Reason != tt.reason || !strings.Contains(got.Detail, tt.next) {
			t.Errorf("%s: %+v", tt.path, got)
		}
	}
}

// TestRefusalNamesNoOtherScope: a refusal names no scope that the task may not ask for.
//
//ebb:invariant I2 An egress refusal names only scopes within the ceiling of the task
func TestRefusalNamesNoOtherScope(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("stripe:charges:write")
	x := b.boxOf(t, b.Open(t, spec))
	for _, path := range []string{"/v1/charges", "/v3/charges"} { // stripe:charges:read covers the first
		_, body := send(t, x.client(t, true), "GET", "https://"+b.host+path, "")
		if got := refused(t, body); strings.Contains(got.Detail, "stripe") || !strings.Contains(got.Detail, "No scope that the task may ask for covers it. ") {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// TestRefusalIsDrawn: text of the sandbox comes back in a refusal in a form that hides nothing, and
// a refusal never states the address of a name.
//
//ebb:invariant I2 An egress refusal does not reveal the address to which a host name resolves
func TestRefusalIsDrawn(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	long := strings.Repeat("a/", 200)
	for line, want := range map[string]string{
		"CONNECT 1.2.3.4:443":                                  "CONNECT 1.2.3.4:443 was refused: its host is an address. Name the host by its DNS name: addresses are not reached.",
		"CONNECT internal:443":                                 "CONNECT internal:443 was refused: its host is a single label. Name the host by its full DNS name in ASCII, such as api.example.com.",
		"CONNECT a\u202eb.example:443":                         "CONNECT a[U+202E]b.example:443 was refused: its host is not made of letters, digits and hyphens. ",
		"GET http://api.example.com/x?token=private":           "GET http://api.example.com/x was refused: it did not come through a tunnel to its host. ",
		"GET /to/api.example.com/a//////////b":                 "GET https://api.example.com/a///[x10]b was refused: servers can read its path in more than one way. ",
		"GET /to/api.example.com/%e2%80%ae%22,%22error%22:%22": "GET https://api.example.com/%e2%80%ae%22,%22error%22:%22 was refused: ",
		"GET /to/api.example.com/" + long + "b":                "GET https://api.example.com/" + long[:200-len("https://api.example.com/")] + "[+225] was refused: ",
		"SAY-SOMETHING /to/api.example.com/x":                  "A request to https://api.example.com/x was refused: its method is none that goes further. ",
	} {
		out := raw(t, x, line+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		_, body, _ := strings.Cut(out, "\r\n\r\n")
		if got := refused(t, body); !strings.HasPrefix(got.Detail, want) || strings.Contains(out, "private") {
			t.Errorf("%s: %+v", line, got)
		}
	}
	b.names.answers["api.example.com."] = [][]string{{"127.0.0.1", "10.1.2.3"}} // the second address is not allowed in this bed
	p := x.placeholder(t, "stripe:charges:read")
	res, body := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p)
	if got := refused(t, body); res.StatusCode != http.StatusForbidden || got.Reason != "private_address" || strings.Contains(body, "10.1") || strings.Contains(body, "127.0") {
		t.Errorf("%s %+v", res.Status, got)
	}
	if out := x.said(t, p, "GET /v1/x HTTP/1.1\nHost: H\n\n"); !strings.Contains(out, `"A request was refused: a line of its head ends with LF alone, not with CR LF. `) {
		t.Errorf("two readings: %s", out)
	}
}
