package scopes_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/scopes"
)

// A parsed scope prints as the same text, and stays inside the RFC 6749 section 3.3 charset.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a:b:c", "orders:eu/*/**:*", "a:..:c", "a:b*:c", "a:b:c:d", "a:" + strings.Repeat("x/", 16) + "x:r", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scopes.Parse(text)
		if err != nil {
			return
		}
		if s.String() != text || len(text) > scopes.MaxBytes || !s.Covers(s) || len(s.Segments()) > scopes.MaxSegments {
			t.Fatalf("%q came back as %q", text, s)
		}
		if s.Provider()+":"+strings.Join(s.Segments(), "/")+":"+s.Action() != text {
			t.Fatalf("%q has other parts", text)
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return r < 0x21 || r > 0x7e || r == '"' || r == '\\' || r == '%' }); i >= 0 {
			t.Fatalf("%q holds a forbidden character at %d", text, i)
		}
	})
}

// The canonical form is a fixed point, and it permits the scopes of the input.
//
//ebb:invariant I5
func FuzzParseSet(f *testing.F) {
	for _, seed := range []string{"", "a:b:c", "b:x:r a:**:* a:x:r", "a:b:c  a:b:d", " a:b:c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scopes.ParseSet(text)
		if err != nil {
			return
		}
		again, err := scopes.ParseSet(s.String())
		if err != nil || again.String() != s.String() || !again.Equal(s) || !s.Narrow(s).Equal(s) {
			t.Fatalf("%q: %q came back as %q, %v", text, s, again, err)
		}
		for _, token := range strings.Fields(text) {
			if !s.CoversScope(scopes.MustParse(token)) {
				t.Fatalf("%q lost %q", text, token)
			}
		}
		if s.Len() > scopes.MaxScopes || len(s.String()) > len(text) {
			t.Fatalf("%q grew to %q", text, s)
		}
	})
}

func FuzzParseDetails(f *testing.F) {
	for _, seed := range []string{"[" + goodDetail + "]", "[]", `[{"type":"ebb_credential"}]`, "null", "[[[[", `[{"type":"a","Type":"b"}]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		details, err := scopes.ParseDetails(b)
		if err != nil {
			return
		}
		printed, err := json.Marshal(details)
		if err != nil {
			t.Fatal(err)
		}
		again, err := scopes.ParseDetails(printed)
		if err != nil || !reflect.DeepEqual(again, details) {
			t.Fatalf("%s came back as %s, %v", b, printed, err)
		}
		reprinted, _ := json.Marshal(again)
		if !bytes.Equal(printed, reprinted) {
			t.Fatalf("%s printed as %s", printed, reprinted)
		}
	})
}

func FuzzParseResource(f *testing.F) {
	for _, seed := range []string{"https://api.example/x?y", "http://[::1]:8080", "http://0x7f.1", "https://a@b", "https://a\\@b", "https://a%41"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := scopes.ParseResource(text)
		if err != nil {
			return
		}
		u, err := url.Parse(text)
		if err != nil || got != text || u.Host == "" || u.User != nil || u.Fragment != "" || strings.ToLower(u.Host) != u.Host {
			t.Fatalf("%q parsed as %q, %v", text, got, err)
		}
		if u.Scheme == "http" && u.Hostname() != "localhost" && u.Hostname() != "::1" && !strings.HasPrefix(u.Hostname(), "127.") {
			t.Fatalf("%q is plain http off loopback", text)
		}
	})
}
