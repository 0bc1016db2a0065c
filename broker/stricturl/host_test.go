package stricturl_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/stricturl"
)

func reason(err error) stricturl.Reason {
	if e := (*stricturl.Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// TestHostsThatAreRead: (E12) valid hosts that are similar to refused ones.
func TestHostsThatAreRead(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"api.github.com:443":           "api.github.com:443",
		"API.GitHub.com:443":           "api.github.com:443",
		"api.github.com":               "api.github.com:443",
		"api.github.com:8443":          "api.github.com:8443",
		"xn--bcher-kva.example:65535":  "xn--bcher-kva.example:65535",
		"0.example:1":                  "0.example:1",
		"a.1x":                         "a.1x:443",
		"a.0xfg":                       "a.0xfg:443",
		strings.Repeat("a", 63) + ".b": strings.Repeat("a", 63) + ".b:443",
	} {
		h, err := stricturl.ParseHost(in, 443)
		if err != nil || h.String() != want {
			t.Errorf("%q is %q, %v; want %q", in, h, err, want)
		}
	}
}

// TestHostsThatAreRefused: (E1, E2, E3, E5, E9, E11, E14, E15, E16, E17) a host that two
// parsers could read differently is refused.
func TestHostsThatAreRefused(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]stricturl.Reason{
		// Addresses, in every notation that some resolver takes for one.
		"1.2.3.4:443": stricturl.IPLiteral, "[::1]:443": stricturl.IPLiteral, "[::ffff:169.254.169.254]:80": stricturl.IPLiteral, "[fe80::1%eth0]:1": stricturl.IPLiteral,
		"2852039166": stricturl.BadHost, "0xa9fea9fe:80": stricturl.BadHost, "0251.0376.0251.0376": stricturl.BadHost, "127.1:443": stricturl.BadHost,
		"a.0x": stricturl.BadHost, "a.0X7F": stricturl.BadHost, "a.127": stricturl.BadHost, "1.2.3.256": stricturl.BadHost, "1.2.3.4.": stricturl.BadHost,
		"[api.github.com]:443": stricturl.BadHost, "[api.github.com": stricturl.BadHost, "[::1": stricturl.BadHost, "::1": stricturl.BadHost,
		// Names that some resolvers, proxies or URL parsers interpret differently.
		"": stricturl.BadHost, ":443": stricturl.BadHost, "internal:443": stricturl.BadHost, "localhost:443": stricturl.BadHost, "metadata": stricturl.BadHost,
		"api.github.com.:443": stricturl.BadHost, ".api.github.com": stricturl.BadHost, "api..github.com": stricturl.BadHost,
		"gıthub.com": stricturl.BadHost, "ｇithub.com": stricturl.BadHost, "git\u00adhub.com": stricturl.BadHost, "github\u3002com": stricturl.BadHost, "github\u2024com": stricturl.BadHost,
		"\u212aube.example": stricturl.BadHost, "github.com\x00.example": stricturl.BadHost, "api%2egithub.com": stricturl.BadHost, "a@b.example:443": stricturl.BadHost,
		"b.example/x": stricturl.BadHost, "b.example ": stricturl.BadHost, "\tb.example": stricturl.BadHost, "a_b.example": stricturl.BadHost, "-a.example": stricturl.BadHost, "a-.example": stricturl.BadHost,
		"*.github.com": stricturl.BadHost, "b.example\\": stricturl.BadHost, strings.Repeat("a", 64) + ".b": stricturl.BadHost, strings.Repeat("a.", 127) + "b": stricturl.BadHost,
		// Ports.
		"b.example:": stricturl.BadPort, "b.example:0": stricturl.BadPort, "b.example:65536": stricturl.BadPort, "b.example:0443": stricturl.BadPort, "b.example:443 ": stricturl.BadPort,
		"b.example:https": stricturl.BadPort, "b.example:+443": stricturl.BadPort, "b.example:-1": stricturl.BadPort, "api.github.com:443@evil.example:443": stricturl.BadPort, "b.example:4_43": stricturl.BadPort,
	} {
		if h, err := stricturl.ParseHost(in, 443); reason(err) != want {
			t.Errorf("%q is %q, %v; want %s", in, h, err, want)
		}
	}
	if h, err := stricturl.ParseHost("b.example", 0); reason(err) != stricturl.BadPort {
		t.Errorf("without a port: %q, %v", h, err)
	}
}

// FuzzParseHost: an accepted host prints in its accepted form, parses to itself, and is not an
// IP address.
func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"api.github.com:443", "A.b", "1.2.3.4", "[::1]:1", "0x7f.1", "a..b:01", "x.0x:9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := stricturl.ParseHost(s, 443)
		if err != nil {
			if reason(err) == "" || strings.Contains(err.Error(), s) && len(s) > 3 {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if want := strings.ToLower(s); h.String() != want && h.String() != want+":443" {
			t.Errorf("%q is read as %q", s, h)
		}
		if _, err := netip.ParseAddr(h.Name); err == nil {
			t.Errorf("%q is an address", s)
		}
		if again, err := stricturl.ParseHost(h.String(), 0); err != nil || again != h {
			t.Errorf("%q, then %q, %v", h, again, err)
		}
	})
}
