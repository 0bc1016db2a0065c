package spiffe_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/spiffe"
)

func TestNotIDs(t *testing.T) {
	t.Parallel()
	for _, s := range notIDs() {
		id, err := spiffe.ParseID(s)
		// Those that are valid IDs belong to another trust domain, or have a segment "*".
		if err == nil && (strings.HasPrefix(id, "spiffe://sbx.test/") || id != s) {
			t.Errorf("%q was read as %q", s, id)
		}
	}
	if _, err := spiffe.ParseID(boxID); err != nil {
		t.Error(err)
	}
	for n, good := range map[int]bool{255: true, 256: false} {
		if _, err := spiffe.ParseID("spiffe://" + strings.Repeat("a", n) + "/b"); (err == nil) != good {
			t.Errorf("a trust domain of %d bytes: %v", n, err)
		}
	}
}

// TestPatterns: (H19) a pattern matches whole segments.
func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ pattern, yes, no string }{
		{"/team/a", "/team/a", "/team/ab /team/a/b /team /team/A /xteam/a /team/b /a /team/a.b"},
		{"/team/*", "/team/a /team/ab /team/a-b_c.d", "/team /team/a/b /teams/a /xteam/a"},
		{"/team/a/**", "/team/a/b /team/a/b/c/d", "/team/a /team/ab /team/ab/c /team/b/c /xteam/a/b /x/team/a/b"},
		{"/*/a", "/team/a /x/a", "/a /team/x/a /team/ab /team/a/b"},
		{"/ns/*/sa/*", "/ns/x/sa/y", "/ns/x/y/sa/z /ns/sa/y /ns/x/sa /ns/x/sa/y/z"},
		{"/ns/*/**", "/ns/x/y /ns/x/y/z", "/ns/x /ns /n/x/y"},
		{"/**", "/a /a/b/c", ""},
		{"/*", "/a", "/a/b"},
	} {
		for _, path := range strings.Fields(tc.yes) {
			if ok, err := spiffe.Matches(tc.pattern, "spiffe://sbx.test"+path); !ok || err != nil {
				t.Errorf("%s does not accept %s: %v", tc.pattern, path, err)
			}
		}
		for _, path := range strings.Fields(tc.no) {
			if ok, err := spiffe.Matches(tc.pattern, "spiffe://sbx.test"+path); ok || err != nil {
				t.Errorf("%s accepts %s: %v", tc.pattern, path, err)
			}
		}
	}
	for _, bad := range []string{"", "team/a", "spiffe://sbx.test/team/a", "/", "/team/", "//team", "/team/a*", "/team/*a", "/**/a", "/team/***", "/team/..", "/./a", "/team/%61",
		"/te am", "/team\x00", "/t\u00e9am", "*", "**", "/" + strings.Repeat("a", 2048), "/team?x", "/team#x", "/a\\b"} {
		if _, err := spiffe.Matches(bad, boxID); err == nil {
			t.Errorf("the pattern %q was taken", bad)
		}
	}
}

// FuzzID: an accepted SPIFFE ID is returned unchanged, names a workload, and has the same
// meaning for net/url.
func FuzzID(f *testing.F) {
	f.Add(boxID)
	for _, s := range notIDs() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := spiffe.ParseID(s)
		if err != nil {
			return
		}
		u, err := url.Parse(s)
		if err != nil || id != s || len(s) > 2048 || u.Scheme != "spiffe" || u.User != nil || u.Port() != "" || u.Host != strings.ToLower(u.Host) || u.Host == "" ||
			len(u.Path) < 2 || u.RawPath != "" || u.String() != s || strings.ContainsAny(s, "%?#@ \\*") || strings.Contains(u.Path, "//") || strings.HasSuffix(s, "/") {
			t.Errorf("%q was read as %q, %+v", s, id, u)
		}
	})
}

// FuzzPattern: a pattern without stars accepts itself and nothing longer; one with
// "*" nothing that has more segments.
func FuzzPattern(f *testing.F) {
	f.Add("/team/a", "/team/ab")
	f.Add("/team/*", "/team/a/b")
	f.Add("/team/**", "/team")
	f.Add("/team/0", "0/team/0") // that is another trust domain, and no path
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if !strings.HasPrefix(path, "/") {
			return
		}
		ok, err := spiffe.Matches(pattern, "spiffe://sbx.test"+path)
		if err != nil || !ok || strings.HasSuffix(pattern, "/**") {
			return
		}
		want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
		if len(want) != len(got) {
			t.Fatalf("%q accepts %q", pattern, path)
		}
		for i := range want {
			if want[i] != got[i] && want[i] != "*" {
				t.Errorf("%q accepts %q", pattern, path)
			}
		}
	})
}
