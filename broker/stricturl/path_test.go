package stricturl_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/stricturl"
)

// TestPaths: (E41, E55, E56, E57, E58, E60, E61, E63) a path that two servers could read
// differently is refused.
func TestPaths(t *testing.T) {
	t.Parallel()
	both := stricturl.PathForm{Slash: true, Text: true}
	for _, c := range []struct {
		in   string
		form stricturl.PathForm
		want []string // nil = refused
	}{
		{"/", stricturl.PathForm{}, []string{""}},
		{"/a/b", stricturl.PathForm{}, []string{"a", "b"}},
		{"/a/b/", stricturl.PathForm{}, []string{"a", "b", ""}},
		{"/%61/b-._~!$&'()*+,=:@", stricturl.PathForm{}, []string{"a", "b-._~!$&'()*+,=:@"}},
		{"/.well-known/x", stricturl.PathForm{}, []string{".well-known", "x"}},
		{"/a/...x/..x", stricturl.PathForm{}, []string{"a", "...x", "..x"}},
		{"/@scope%2fname", stricturl.PathForm{Slash: true}, []string{"@scope%2fname"}},
		{"/@scope%2Fname", stricturl.PathForm{Slash: true}, []string{"@scope%2fname"}},
		{"/my%20file/caf%C3%A9", stricturl.PathForm{Text: true}, []string{"my file", "café"}},
		{"/heads%2Ffix%20it", both, []string{"heads%2ffix it"}},

		{"", stricturl.PathForm{}, nil}, {"a", stricturl.PathForm{}, nil}, {"*", stricturl.PathForm{}, nil}, {"http://a/", stricturl.PathForm{}, nil},
		{"/repos/ok/../../user", both, nil}, {"/a/.", both, nil}, {"/./a", both, nil},
		{"/a/%2e%2e/b", both, nil}, {"/a/.%2e/b", both, nil}, {"/a/%2E./b", both, nil}, {"/a/%2e/b", both, nil}, {"/a/.../b", both, nil},
		{"/a/..;/b", both, nil}, {"/a;jsessionid=1", both, nil}, {"/a/%3b", both, nil},
		{"/a%2fb", stricturl.PathForm{}, nil}, {"/a%2fb", stricturl.PathForm{Text: true}, nil}, {"/a%5cb", both, nil}, {`/a\b`, both, nil},
		{"/%2f", both, nil}, {"/a%2f", both, nil}, {"/%2fa", both, nil}, {"/a%2f..%2fb", both, nil}, {"/a%2f%2e%2e", both, nil}, {"/a%2f%2fb", both, nil},
		{"/%252fa", both, nil}, {"/%252e%252e", both, nil}, {"/a%25", both, nil},
		{"//evil.com/x", both, nil}, {"/a//b", both, nil},
		{"/a%00b", both, nil}, {"/a%0d%0ab", both, nil}, {"/a%7f", both, nil}, {"/a%c0%ae", both, nil}, {"/a%ff", both, nil}, {"/a%c2%85", both, nil},
		{"/a b", both, nil}, {"/café", both, nil}, {"/a%2", both, nil}, {"/a%zz", both, nil}, {"/a%3fb", both, nil}, {"/a%23b", both, nil}, {"/a#b", both, nil}, {"/a?b", both, nil}, {`/a"b`, both, nil}, {"/a[0]", both, nil}, {"/a%5b0%5d", stricturl.PathForm{}, []string{"a[0]"}},
		{"/..%20/a", both, nil}, {"/%20../a", both, nil}, {"/a%20", both, nil}, {"/a%e2%80%ae", both, nil}, {"/a%ef%bc%8f", both, nil}, {"/%e2%80%a5", both, nil}, {"/a%c2%a0b", both, nil},
		{"/a%20b", stricturl.PathForm{}, nil}, {"/caf%C3%A9", stricturl.PathForm{}, nil},
		{"/" + strings.Repeat("a", 8<<10), both, nil},
	} {
		got, err := stricturl.Path(c.in, c.form)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) || err != nil && reason(err) != stricturl.AmbiguousPath {
			t.Errorf("%q as %+v: %q, %v; want %q", c.in, c.form, got, err, c.want)
		}
	}
}

// E65 and E66: nor is it a query.
func TestQueries(t *testing.T) {
	t.Parallel()
	for _, ok := range []string{"", "a=1&b=2", "a=1&a=2", "a", "q=x%20y+z", "a=%2e%2e", strings.Repeat("a&", 255)} {
		if v, err := stricturl.Query(ok); err != nil || ok != "" && len(v) == 0 {
			t.Errorf("%q: %v, %v", ok, v, err)
		}
	}
	for _, bad := range []string{
		"a=1;b=2", "a=%zz", "a=%2", "a b", "a=\x00", "a=é", "a#b", "_method=DELETE", "%5fmethod=DELETE", "_METHOD=PUT", "X-HTTP-Method-Override=PUT",
		strings.Repeat("a&", 256), strings.Repeat("a", 8<<10+1),
	} {
		if v, err := stricturl.Query(bad); reason(err) != stricturl.AmbiguousQuery {
			t.Errorf("%.40q: %v, %v", bad, v, err)
		}
	}
}

// E48: methods are of a few letters, and none of them shows a request to who sent it.
func TestMethods(t *testing.T) {
	t.Parallel()
	for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "LIST"} {
		if err := stricturl.Method(m); err != nil {
			t.Errorf("%s: %v", m, err)
		}
	}
	for _, m := range []string{"", "get", "Get", "G@T", "GET ", "GÉT", "TRACE", "TRACK", "CONNECT", "PRI", "M-SEARCH", strings.Repeat("A", 17), strings.Repeat("A", 8<<10)} {
		if err := stricturl.Method(m); reason(err) != stricturl.BadMethod {
			t.Errorf("%.20q: %v", m, err)
		}
	}
}

// E66 and E67: a header that makes a request another one keeps it here.
func TestHeadersThatMakeAnotherRequest(t *testing.T) {
	t.Parallel()
	for _, k := range []string{"X-HTTP-Method-Override", "x_http_method", "X-Method-Override", "X-Original-URL", "X-Rewrite-Url", "X_Original_Url", "X-Envoy-Original-Path", "X-Forwarded-Prefix", "X-Accel-Redirect"} {
		if err := stricturl.Header(http.Header{k: nil, "Accept": {"*/*"}}); reason(err) != stricturl.BadHeader {
			t.Errorf("%s: %v", k, err)
		}
	}
	if err := stricturl.Header(http.Header{"Accept": {"x"}, "X-Github-Api-Version": {"1"}, "X-Original": {"1"}}); err != nil {
		t.Error(err)
	}
}

// FuzzPath: an accepted path has the same meaning for net/http's server, a server that decodes
// twice, one that cleans paths first, and one that splits after decoding.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"/", "/a/b", "/a%20b", "/a%2fb/", "/%2e%2e", "/..;/a", "//", "/a%252f", "/caf%C3%A9", "/%e2%81%84"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, form := range []stricturl.PathForm{{}, {Slash: true}, {Text: true}, {Slash: true, Text: true}} {
			segments, err := stricturl.Path(s, form)
			if err != nil {
				continue
			}
			u, err := url.ParseRequestURI(s)
			if err != nil || u.EscapedPath() != s || u.RawQuery != "" || u.Fragment != "" || u.Host != "" {
				t.Fatalf("%q: %+v, %v", s, u, err)
			}
			if clean := httptest.NewRequest(http.MethodGet, "http://x.example"+s, nil).URL.JoinPath().EscapedPath(); !form.Slash && !form.Text && len(segments) > 1 && strings.Count(clean, "/") != strings.Count(s, "/") {
				t.Errorf("%q is %q when it is made plain", s, clean)
			}
			for _, seg := range segments {
				whole, twice := strings.ReplaceAll(seg, "%2f", "/"), seg
				if !form.Slash || !strings.Contains(seg, "%2f") {
					if twice, err = url.PathUnescape(seg); err != nil || twice != seg {
						t.Errorf("%q: %q decodes to %q, %v", s, seg, twice, err)
					}
				}
				if slices.ContainsFunc(strings.Split(whole, "/"), func(p string) bool { return p == "." || p == ".." }) || strings.ContainsAny(seg, "\\;\x00\r\n") {
					t.Errorf("%q has the segment %q", s, seg)
				}
			}
		}
	})
}

// FuzzQuery: an accepted query has exactly the parameters of a plain split at & and =.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"", "a=1", "a=1;b", "a=%20", "_method=x", "a&&b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := stricturl.Query(s)
		if err != nil {
			return
		}
		n := 0
		for pair := range strings.SplitSeq(s, "&") {
			if pair == "" {
				continue
			}
			key, value, _ := strings.Cut(pair, "=")
			k, err1 := url.QueryUnescape(key)
			w, err2 := url.QueryUnescape(value)
			if err1 != nil || err2 != nil || !slices.Contains(v[k], w) {
				t.Errorf("%q: %q=%q is not among %v", s, k, w, v)
			}
			n++
		}
		total := 0
		for _, all := range v {
			total += len(all)
		}
		if total != n {
			t.Errorf("%q has %d parameters, and %d were read", s, n, total)
		}
	})
}
