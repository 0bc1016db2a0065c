package egress_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A tool that takes a base URL and no proxy is subject to the same rules: the host is parsed
// strictly, and the lease must cover the request.
//
//ebb:invariant I2 Programs reach servers on the sandbox's own loopback without the egress proxy, and the egress endpoint serves requests for itself that arrive as proxy requests
func TestBaseURL(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	get := func(target string, more ...string) string {
		return raw(t, x, "GET "+target+" HTTP/1.1\r\nHost: 127.0.0.1:3128\r\nConnection: close\r\nAuthorization: Bearer "+p+"\r\n"+strings.Join(more, "")+"\r\n")
	}
	if out := get("/to/" + b.host + "/v1/x?a=%20b&c"); !strings.HasPrefix(out, "HTTP/1.1 200") {
		t.Errorf("%q", out)
	}
	got := b.arrived()
	if len(got) != 1 || got[0].RequestURI != "/v1/x?a=%20b&c" || got[0].Host != b.host || got[0].Header.Get("Authorization") != "Bearer "+canary {
		t.Errorf("arrived: %+v", got)
	}
	for name, c := range map[string]struct{ target, reason string }{
		"E24 absolute":                      {"http://api.example.com/to/" + b.host + "/v1/x", "not_tunnelled"},
		"E24 https absolute":                {"https://" + b.host + "/v1/x", "not_tunnelled"},
		"E1 an address":                     {"/to/1.2.3.4/v1/x", "ip_literal"},
		"E3 decimal":                        {"/to/2852039166/v1/x", "bad_host"},
		"E16 an escaped dot":                {"/to/api%2eexample.com/v1/x", "bad_host"},
		"E16 a login":                       {"/to/a@" + b.host + "/v1/x", "bad_host"},
		"E17 port 0":                        {"/to/api.example.com:0/v1/x", "bad_port"},
		"no host":                           {"/to//v1/x", "bad_host"},
		"no path":                           {"/to/" + b.host, "ambiguous_path"},
		"E55 up to another":                 {"/to/" + b.host + "/../www.example.com/v1/x", "ambiguous_path"},
		"E60 two slashes":                   {"/to/" + b.host + "//v1/x", "ambiguous_path"},
		"another host's path":               {"/to/" + strings.Replace(b.host, "api.", "www.", 1) + "/v1/x", "not_allowed"},
		"a path of no scope":                {"/to/" + b.host + "/v2/x", "not_allowed"},
		"absolute, a server of the sandbox": {"http://localhost:8099/", "not_tunnelled"},
		"absolute, with a login":            {"http://a@127.0.0.1:3128/to/" + b.host + "/v1/x", "not_tunnelled"},
		"absolute, https":                   {"https://127.0.0.1:3128/to/" + b.host + "/v1/x", "not_tunnelled"},
		"absolute, up to another":           {"http://127.0.0.1:3128/to/" + b.host + "/../www.example.com/v1/x", "ambiguous_path"},
	} {
		if out := get(c.target); !strings.HasPrefix(out, "HTTP/1.1 4") || !strings.Contains(out, c.reason) {
			t.Errorf("%s: %q, want %s", name, out, c.reason)
		}
	}
	if out := get("/to/"+b.host+"/v1/x", "Connection: Upgrade\r\nUpgrade: websocket\r\n"); !strings.HasPrefix(out, "HTTP/1.1 400") {
		t.Errorf("E97 an upgrade: %q", out)
	}
	if n := len(b.arrived()); n != 1 {
		t.Errorf("%d requests arrived", n)
	}
	// A client that sends requests for the endpoint itself through the proxy is served.
	for _, own := range []string{"http://127.0.0.1:3128", "http://localhost:3128"} {
		if out := get(own + "/to/" + b.host + "/v1/x?a=%20b"); !strings.HasPrefix(out, "HTTP/1.1 200") {
			t.Errorf("%s: %q", own, out)
		}
		if out := get(own + "/sandbox"); !strings.HasPrefix(out, "HTTP/1.1 200") || !strings.Contains(out, x.s.Task.ID) {
			t.Errorf("%s: %q", own, out)
		}
	}
}

// gRPC requests trailers and gets them, announced or not, cleaned as headers are.
func TestTrailersOfGRPC(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Te") != "trailers" || r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		_, _ = io.WriteString(w, "message")
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", "for "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	})
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:write")
	res, body := send(t, x.client(t, true), "POST", "https://"+b.host+"/v1/charges", "frame", "Authorization", "Bearer "+p, "Te", "trailers", "Content-Type", "application/grpc")
	if res.StatusCode != 200 || body != "message" || res.Trailer.Get("Grpc-Status") != "0" || res.Trailer.Get("Grpc-Message") != "for [redacted]" {
		t.Errorf("%s %q %v", res.Status, body, res.Trailer)
	}
	if res, _ := send(t, x.client(t, false), "POST", "https://"+b.host+"/v1/charges", "frame", "Authorization", "Bearer "+p, "Te", "trailers, deflate"); res.StatusCode != http.StatusTeapot {
		t.Errorf("more than trailers was asked for: %s", res.Status)
	}
}

// TestBaseUnderAnotherName: a page whose name was rebound to the address of an endpoint can read
// nothing there. A page of another site can cause nothing, for example by a POST of a form.
//
//ebb:invariant I6 An egress endpoint refuses base URL and information requests that a browser page sends under its own host name (DNS rebinding)
//ebb:invariant I6 An egress endpoint refuses base URL and information requests that a browser marks as caused by another site's page
func TestBaseUnderAnotherName(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	for _, path := range []string{"/sandbox", "/to/" + b.host + "/v1/x"} {
		for says, want := range map[string]bool{
			"evil.example:3128": false,
			"127.0.0.1:3128":    true,
			"127.0.0.1:3128\r\nSec-Fetch-Site: cross-site":                            false,
			"127.0.0.1:3128\r\nSec-Fetch-Site: same-origin":                           true,
			"127.0.0.1:3128\r\nOrigin: https://evil.example":                          false,
			"127.0.0.1:3128\r\nOrigin: null":                                          false,
			"127.0.0.1:3128\r\nOrigin: http://127.0.0.1:3128\r\nOrigin: http://a.com": false,
			"127.0.0.1:3128\r\nOrigin: http://[":                                      false,
			"127.0.0.1:3128\r\nOrigin: http://127.0.0.1:3128":                         true,
			"127.0.0.1:3128\r\nOrigin: http://203.0.113.9":                            false,
			"127.0.0.1:3128\r\nOrigin: http://localhost:3128":                         false,
			"ebb:3128\r\nOrigin: http://203.0.113.9":                                  false,
			"ebb:3128\r\nOrigin: http://other:3128":                                   false,
			"127.0.0.1:3128\r\nSec-Fetch-Site: same-site":                             false,
			"127.0.0.1:3128\r\nSec-Fetch-Site: none":                                  true,
			"127.0.0.1:3128\r\nSec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site":    false,
			"ebb:3128\r\nOrigin: http://EBB:3128":                                     true,
			"ebb:3128":                                                                true,
			"\r\nOrigin: null":                                                        false,
		} {
			out := raw(t, x, "GET "+path+" HTTP/1.1\r\nHost: "+says+"\r\nAuthorization: Bearer "+x.placeholder(t, "stripe:charges:read")+"\r\nConnection: close\r\n\r\n")
			if got := strings.HasPrefix(out, "HTTP/1.1 200 "); got != want || !want && !strings.Contains(out, "misdirected") {
				t.Errorf("%s under %q: %.80q", path, says, out)
			}
		}
	}
}
