package web_test

import (
	"testing"

	"github.com/ebb-broker/ebb/web"
)

func inCharset(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func TestDescription(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                       "",
		"Ask for less.":          "Ask for less.",
		`say "please"`:           `say 'please'`,
		"line\r\nSet-Cookie: a":  "line??Set-Cookie: a",
		"caf\u00e9":              "caf?",
		"\u202eevil":             "?evil",
		`back\slash`:             "back?slash",
		"bad\xffbyte":            "bad?byte",
		"tab\tand\x7f and \x00.": "tab?and? and ?.",
	} {
		if got := web.Description(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzDescription(f *testing.F) {
	f.Add("plain")
	f.Add("quote \" and \\ and \x00")
	f.Fuzz(func(t *testing.T, s string) {
		got := web.Description(s)
		if !inCharset(got) {
			t.Fatalf("%q: %q is outside the charset", s, got)
		}
		if inCharset(s) && got != s {
			t.Fatalf("%q was changed to %q for no reason", s, got)
		}
	})
}
