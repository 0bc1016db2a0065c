package dpop

import (
	"testing"
)

// FuzzNormalHTU: normalHTU does not change a normalized URL, and returns "" for a refused one.
func FuzzNormalHTU(f *testing.F) {
	f.Add("https://EBB.example:443/a%2F?x#y")
	f.Add("http://h:80")
	f.Add("https://[::1]:443/")
	f.Fuzz(func(t *testing.T, raw string) {
		norm, ok := normalHTU(raw)
		if !ok {
			if norm != "" {
				t.Errorf("refused, yet %q", norm)
			}
			return
		}
		if again, ok := normalHTU(norm); !ok || again != norm {
			t.Errorf("%q became %q", norm, again)
		}
	})
}

func TestNormalHTU(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://h":            "https://h/",
		"https://h?x":          "https://h/",
		"http://H:80/A":        "http://h/A",
		"http://h:443/":        "http://h:443/",
		"https://[::1]:443/x":  "https://[::1]/x",
		"https://h/a%2Fb/../c": "https://h/a%2Fb/../c",
		"https:///x":           "",
		"https://:443/x":       "",
		"https://h:443:443/":   "",
		"ftp://h/":             "",
		"h/x":                  "",
		"":                     "",
		"https://a@h/":         "",
		"https://h/\x00":       "",
		"https://h/é":          "",
	} {
		if got, ok := normalHTU(in); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
