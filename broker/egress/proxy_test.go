package egress_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/egress"
)

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
}

// A request with a placeholder arrives with the secret, over HTTP/1.1 and HTTP/2, also in Basic
// (E79), with the query that was checked (E65). The sandbox never has the secret, and its other
// credentials are not sent (E75, E91).
func TestInjects(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		b := newBed(t, echo)
		x := b.sandbox(t)
		p := x.placeholder(t, "stripe:charges:read stripe:charges:write")
		c := x.client(t, h2)
		for _, how := range [][]string{
			{"Authorization", "Bearer " + p}, {"Authorization", p}, {"X-Api-Key", p},
			{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+p))}, {"Authorization", "basic " + base64.StdEncoding.EncodeToString([]byte(p+":"))},
		} {
			res, body := send(t, c, "POST", "https://"+b.host+"/v1/charges?a=1&b=%20", "amount=1", append(how, "Cookie", "mine=1", "X-Api_Key", "theirs", "X-Forwarded-For", "1.2.3.4")...)
			if res.StatusCode != 200 || body != "POST /v1/charges?a=1&b=%20 amount=1" || (res.ProtoMajor == 2) != h2 {
				t.Fatalf("%v: %s %s %q", how, res.Proto, res.Status, body)
			}
		}
		for _, r := range b.arrived() {
			if got := r.Header.Values("Authorization"); len(got) != 1 || got[0] != "Bearer "+canary || r.Host != b.host {
				t.Errorf("arrived with %q for %s", got, r.Host)
			}
			for name, values := range r.Header {
				if name != "Authorization" && (strings.Contains(strings.Join(values, " "), "placeholder") || strings.HasPrefix(name, "X-") || name == "Cookie") {
					t.Errorf("arrived with %s: %q", name, values)
				}
			}
		}
	}
}

// A request that no lease of the caller covers does not arrive: E48, E56, E60, E65, E66, E75, E76,
// E77, E78, E90 and E96. The refusal does not reveal whose a foreign placeholder is.
//
//ebb:invariant I2 An egress refusal states the next step for the caller, for every reason
//ebb:invariant I2 The egress proxy uses no lease of a task or tool other than the caller's own
func TestRefuses(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x, other := b.sandbox(t), b.sandbox(t)
	p, theirs := x.placeholder(t, "stripe:charges:read"), other.placeholder(t, "stripe:charges:read")
	c := x.client(t, false)
	told := map[string]bool{}
	unknown := guess(t, p, 0)
	for name, r := range map[string]struct {
		method, url string
		headers     []string
		status      int
		reason      string
	}{
		"no placeholder":      {"GET", "/v1/x", nil, 401, "no_placeholder"},
		"their own key":       {"GET", "/v1/x", []string{"Authorization", "Bearer sk_mine"}, 401, "no_placeholder"},
		"another task's":      {"GET", "/v1/x", []string{"Authorization", "Bearer " + theirs}, 401, "no_credential"},
		"unknown":             {"GET", "/v1/x", []string{"Authorization", "Bearer " + unknown}, 401, "no_credential"},
		"malformed":           {"GET", "/v1/x", []string{"Authorization", "Bearer " + egress.Prefix}, 401, "no_credential"},
		"two":                 {"GET", "/v1/x", []string{"Authorization", "Bearer " + p, "X-Api-Key", theirs}, 403, "stray_placeholder"},
		"in another header":   {"GET", "/v1/x", []string{"Authorization", "Bearer " + p, "X-Note", "see " + p}, 403, "stray_placeholder"},
		"in the path":         {"GET", "/v1/" + p, []string{"Authorization", "Bearer " + p}, 403, "stray_placeholder"},
		"in the query":        {"GET", "/v1/x?note=" + p, []string{"Authorization", "Bearer " + p}, 403, "stray_placeholder"},
		"foreign in query":    {"GET", "/v1/x?access_token=sk_mine", []string{"Authorization", "Bearer " + p}, 403, "foreign_credential"},
		"another method":      {"DELETE", "/v1/x", []string{"Authorization", "Bearer " + p}, 403, "not_allowed"},
		"another path":        {"GET", "/v2/x", []string{"Authorization", "Bearer " + p}, 403, "not_allowed"},
		"method by header":    {"GET", "/v1/x", []string{"Authorization", "Bearer " + p, "X-Http-Method-Override", "DELETE"}, 200, ""},
		"method by parameter": {"GET", "/v1/x?_method=DELETE", []string{"Authorization", "Bearer " + p}, 400, "ambiguous_query"},
		"dots":                {"GET", "/v1/x/%2e%2e/y", []string{"Authorization", "Bearer " + p}, 400, "ambiguous_path"},
		"slashes":             {"GET", "/v1//y", []string{"Authorization", "Bearer " + p}, 400, "ambiguous_path"},
		"TRACE":               {"TRACE", "/v1/x", []string{"Authorization", "Bearer " + p}, 400, "bad_method"},
		"its twin":            {"GET", "/v1/x", []string{"Authorization", "Bearer " + p}, 200, ""},
	} {
		before := len(b.arrived())
		res, body := send(t, c, r.method, "https://"+b.host+r.url, "", r.headers...)
		if res.StatusCode != r.status || r.reason != "" && refused(t, body).Reason != r.reason {
			t.Errorf("%s: %s %q; want %d %s", name, res.Status, body, r.status, r.reason)
		}
		if r.reason == "no_credential" {
			told[body] = true
		}
		if n := len(b.arrived()) - before; n != 0 && r.reason != "" || n == 0 && r.reason == "" {
			t.Errorf("%s: %d requests arrived", name, n)
		}
	}
	if len(told) != 1 {
		t.Errorf("invalid placeholders get different responses: %v", told)
	}
	// The lease does not cover this host.
	www := strings.Replace(b.host, "api.", "www.", 1)
	if res, body := send(t, c, "GET", "https://"+www+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != 403 || !strings.Contains(body, "not_allowed") {
		t.Errorf("another host: %s %q", res.Status, body)
	}
}

// raw sends text to the proxy byte by byte and returns the whole response.
func raw(t *testing.T, x *sandbox, text string) string {
	t.Helper()
	c, err := x.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, text)
	out, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%.200q is not answered to its end: %.200q", text, out)
	}
	return string(out)
}

// E1, E2, E3, E9, E11, E16, E17, E18, E24, E27, E43 and E44 in CONNECT: none of them opens a
// tunnel.
func TestTunnelsThatAreNotOpened(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	for name, line := range map[string]string{
		"address": "CONNECT 1.2.3.4:443", "mapped": "CONNECT [::ffff:169.254.169.254]:80", "decimal": "CONNECT 2852039166:80", "hex": "CONNECT 0xa9fea9fe:80", "octal": "CONNECT 0251.0376.0251.0376:80", "short": "CONNECT 127.1:443",
		"single": "CONNECT internal:443", "brackets": "CONNECT [api.example.com]:443", "dot": "CONNECT api.example.com.:443", "login": "CONNECT a@api.example.com:443", "two": "CONNECT api.example.com:443@evil.example:443",
		"percent": "CONNECT api%2eexample.com:443", "no port": "CONNECT api.example.com", "port 0": "CONNECT api.example.com:0", "leading zero": "CONNECT api.example.com:0443", "named": "CONNECT api.example.com:https", "too high": "CONNECT api.example.com:65536",
		"plain GET": "GET http://api.example.com/", "relative": "GET /", "https absolute": "GET https://api.example.com/", "star": "OPTIONS *", "trace": "TRACE http://api.example.com/",
	} {
		if out := raw(t, x, line+" HTTP/1.1\r\nHost: api.example.com\r\n\r\n"); strings.HasPrefix(out, "HTTP/1.1 200") || !strings.HasPrefix(out, "HTTP/1.1 4") {
			t.Errorf("%s: %q", name, out)
		}
	}
	for name, text := range map[string]string{
		"body":    "CONNECT " + b.host + " HTTP/1.1\r\nHost: " + b.host + "\r\nContent-Length: 5\r\n\r\nhello",
		"chunked": "CONNECT " + b.host + " HTTP/1.1\r\nHost: " + b.host + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"headers": "CONNECT " + b.host + " HTTP/1.1\r\nHost: " + b.host + "\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n",
		"PRI":     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		if out := raw(t, x, text); strings.HasPrefix(out, "HTTP/1.1 200") {
			t.Errorf("%s: %q", name, out)
		}
	}
	// A tunnel without TLS is closed without a byte.
	if out := raw(t, x, "CONNECT "+b.host+" HTTP/1.1\r\nHost: x\r\n\r\nSSH-2.0-OpenSSH\r\n"); strings.Contains(strings.TrimPrefix(out, "HTTP/1.1 200 Connection established\r\n\r\n"), "SSH") || strings.Contains(out, "HTTP/1.1 4") {
		t.Errorf("ssh: %q", out)
	}
	if n := len(b.arrived()); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// A secret in a response comes back as a mark: in headers, in bodies however they are split, in
// trailers, in interim responses. Cookies and compressed responses are withheld (E83, E84, E85,
// E86, E89).
//
//ebb:invariant I8 A secret in a response body is replaced by a mark before the body goes to the sandbox
//ebb:invariant I8 A secret in the headers or trailers of a response is replaced by a mark
//ebb:invariant I8 A response that cannot be searched for secrets, such as a compressed one, is not returned to the sandbox
func TestEchoes(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		secret := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch r.URL.Path {
		case "/v1/all":
			w.Header().Set("Link", "</"+secret+">")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Trailer", "X-Last")
			w.Header().Set("X-Echo", "got "+secret)
			w.Header().Set("Set-Cookie", "session="+secret)
			for _, part := range []string{secret[:7], secret[7:9], secret[9:], " ", base64.StdEncoding.EncodeToString([]byte("u:" + secret))} {
				_, _ = io.WriteString(w, part)
				_ = http.NewResponseController(w).Flush()
			}
			w.Header().Set("X-Last", secret)
		case "/v1/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "not read")
		}
	})
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	for _, h2 := range []bool{false, true} {
		c := x.client(t, h2)
		res, body := send(t, c, "GET", "https://"+b.host+"/v1/all", "", "Authorization", "Bearer "+p)
		all := fmt.Sprint(res.Header, res.Trailer, body)
		if strings.Contains(all, "canary") || strings.Contains(all, base64.StdEncoding.EncodeToString([]byte(canary))[:12]) || strings.Count(all, "[redacted]") < 4 || res.Header.Get("Set-Cookie") != "" || res.Trailer.Get("X-Last") != "[redacted]" {
			t.Errorf("h2 %t: %v %v %q", h2, res.Header, res.Trailer, body)
		}
		if res, body := send(t, c, "GET", "https://"+b.host+"/v1/gzip", "", "Authorization", "Bearer "+p, "Accept-Encoding", "gzip"); res.StatusCode != 502 || !strings.Contains(body, "bad_answer") {
			t.Errorf("h2 %t, compressed: %s %q", h2, res.Status, body)
		}
	}
}
