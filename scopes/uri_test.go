package scopes_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/scopes"
)

func TestParseResource(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"https://api.example", "https://api.example/", "https://api.example:8443/v1?tenant=a%2Fb", "https://a",
		"https://xn--bcher-kva.example/x;y=1,2", "https://192.0.2.7/x", "https://[2001:db8::1]:443/x", "https://api.example?x",
		"http://localhost:8080/x", "http://127.0.0.1/", "http://127.8.9.1", "http://[::1]:9/", "https://localhost",
		"https://1.example", "https://0x.example.com", "https://api.example/@x:y",
	} {
		if got, err := scopes.ParseResource(text); err != nil || got != text {
			t.Errorf("ParseResource(%q) = %q, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "api.example", "/v1", "//api.example", "https:", "https:/api.example", "https://", "https:///v1", "https:api.example",
		"https://api.example#", "https://api.example/#x", "HTTPS://api.example", "https://API.example",
		"javascript:alert(1)", "javascript://api.example/%0aalert(1)", "data:,x", "file:///etc/passwd", "ftp://api.example", "urn:x:y",
		"http://api.example", "http://localhost.evil.example", "http://foo.localhost", "http://localhost.", "http://10.0.0.1",
		"https://user@api.example", "https://user:pass@api.example", "https://@api.example", "http://127.0.0.1@evil.example",
		"https://api.example:", "https://api.example:0", "https://api.example:65536", "https://api.example:080", "https://api.example:x",
		"https://api.example:+80", "https://api.example:1:2", "https://:443", "https://[::1]x", "https://[::1]:",
		"http://2130706433", "http://0x7f000001", "http://0177.0.0.1", "http://127.1", "http://127.0.0.1.", "http://0x7f.0.0.1",
		"https://2130706433", "https://0x7f000001", "https://0177.0.0.1", "https://127.1", "https://1.2.3.4.5", "https://256.1.1.1", "https://a.0x1",
		"http://[::ffff:127.0.0.1]", "http://[::ffff:7f00:1]", "http://[0:0:0:0:0:0:0:1]", "http://[::0001]", "http://[::1%25eth0]", "http://[::1%eth0]",
		"https://[::ffff:192.0.2.7]", "https://[2001:DB8::1]", "https://[127.0.0.1]", "https://::1", "https://[]", "https://[api.example]", "https://[[::1]]", "https://::1]",
		"http://0.0.0.0", "https://0.0.0.0", "https://[::]", "http://[::]",
		"https://api.example/ x", "https://api.example/\\x", "https://api.example\\@evil", "https://api.exam%70le", "https://api.example/%", "https://api.example/%2", "https://api.example/%zz",
		"https://api.example/ü", "https://bücher.example", "https://api.example/\x00", "https://api.example/\n", "\thttps://api.example", "https://api.example ",
		"https://a..example", "https://.example", "https://example.", "https://-a.example", "https://a-.example", "https://a_b.example", "https://*.example",
		"https://" + strings.Repeat("a", 64) + ".example", "https://" + strings.Repeat("a.", 127) + "a",
		"https://api.example/" + strings.Repeat("a", 500),
		"https://api.example/<x>", "https://api.example/\"x", "https://api.example/{x}", "https://api.example/`x", "https://api.example/^|",
	} {
		got, err := scopes.ParseResource(text)
		if _, ok := errors.AsType[*scopes.ParseError](err); !ok || got != "" {
			t.Errorf("ParseResource(%q) = %q, %v; want refused", text, got, err)
		}
	}
}
