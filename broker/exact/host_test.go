package exact_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"ebb/broker/exact"
)

func reason(err error) exact.Reason {
	if e := (*exact.Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// E12, and what is well beside the hosts that are refused.
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
		h, err := exact.ParseHost(in, 443)
		if err != nil || h.String() != want {
			t.Errorf("%q is %q, %v; want %q", in, h, err, want)
		}
	}
}

// E1, E2, E3, E5, E9, E11, E14, E15, E16 and E17: what two could read in two ways is no host.
func TestHostsThatAreRefused(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]exact.Reason{
		// Addresses, in every notation that some resolver takes for one.
		"1.2.3.4:443": exact.IPLiteral, "[::1]:443": exact.IPLiteral, "[::ffff:169.254.169.254]:80": exact.IPLiteral, "[fe80::1%eth0]:1": exact.IPLiteral,
		"2852039166": exact.BadHost, "0xa9fea9fe:80": exact.BadHost, "0251.0376.0251.0376": exact.BadHost, "127.1:443": exact.BadHost,
		"a.0x": exact.BadHost, "a.0X7F": exact.BadHost, "a.127": exact.BadHost, "1.2.3.256": exact.BadHost, "1.2.3.4.": exact.BadHost,
		"[api.github.com]:443": exact.BadHost, "[api.github.com": exact.BadHost, "[::1": exact.BadHost, "::1": exact.BadHost,
		// Names that mean something else to somebody.
		"": exact.BadHost, ":443": exact.BadHost, "internal:443": exact.BadHost, "localhost:443": exact.BadHost, "metadata": exact.BadHost,
		"api.github.com.:443": exact.BadHost, ".api.github.com": exact.BadHost, "api..github.com": exact.BadHost,
		"gıthub.com": exact.BadHost, "ｇithub.com": exact.BadHost, "git\u00adhub.com": exact.BadHost, "github\u3002com": exact.BadHost, "github\u2024com": exact.BadHost,
		"\u212aube.example": exact.BadHost, "github.com\x00.example": exact.BadHost, "api%2egithub.com": exact.BadHost, "a@b.example:443": exact.BadHost,
		"b.example/x": exact.BadHost, "b.example ": exact.BadHost, "\tb.example": exact.BadHost, "a_b.example": exact.BadHost, "-a.example": exact.BadHost, "a-.example": exact.BadHost,
		"*.github.com": exact.BadHost, "b.example\\": exact.BadHost, strings.Repeat("a", 64) + ".b": exact.BadHost, strings.Repeat("a.", 127) + "b": exact.BadHost,
		// Ports.
		"b.example:": exact.BadPort, "b.example:0": exact.BadPort, "b.example:65536": exact.BadPort, "b.example:0443": exact.BadPort, "b.example:443 ": exact.BadPort,
		"b.example:https": exact.BadPort, "b.example:+443": exact.BadPort, "b.example:-1": exact.BadPort, "api.github.com:443@evil.example:443": exact.BadPort, "b.example:4_43": exact.BadPort,
	} {
		if h, err := exact.ParseHost(in, 443); reason(err) != want {
			t.Errorf("%q is %q, %v; want %s", in, h, err, want)
		}
	}
	if h, err := exact.ParseHost("b.example", 0); reason(err) != exact.BadPort {
		t.Errorf("without a port: %q, %v", h, err)
	}
}

// What is read prints as what was read, is its own reading, and is no address.
func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"api.github.com:443", "A.b", "1.2.3.4", "[::1]:1", "0x7f.1", "a..b:01", "x.0x:9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := exact.ParseHost(s, 443)
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
		if again, err := exact.ParseHost(h.String(), 0); err != nil || again != h {
			t.Errorf("%q, then %q, %v", h, again, err)
		}
	})
}
