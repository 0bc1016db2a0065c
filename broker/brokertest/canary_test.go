package brokertest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// If Hides found no secret, tests that use it would prove nothing.
func TestHides(t *testing.T) {
	t.Parallel()
	const secret = `cAn4ry <"&'%> /+=~ 0123456789`
	inJSON, _ := json.Marshal(map[string]string{"a": secret})
	var packed, cut bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("some text before and " + hex.EncodeToString([]byte(secret))))
	_ = z.Close()
	cut.WriteString("garbage \x1f\x8b\x08 garbage")
	cut.Write(packed.Bytes()[:packed.Len()-4])
	var wide bytes.Buffer
	for _, c := range utf16.Encode([]rune(secret)) {
		wide.Write([]byte{byte(c), byte(c >> 8)})
	}
	turned := []rune(secret)
	for i, j := 0, len(turned)-1; i < j; i, j = i+1, j-1 {
		turned[i], turned[j] = turned[j], turned[i]
	}
	for form, text := range map[string]string{
		"raw": "x" + secret + "y", "reversed": string(turned), "hex": hex.EncodeToString([]byte("a" + secret)), "hex, upper case": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"bytes": fmt.Sprint([]byte(secret)), "query": "a=" + url.QueryEscape(secret), "path": url.PathEscape(secret), "JSON": string(inJSON),
		"PHP's JSON": strings.ReplaceAll(string(inJSON), "/", `\/`), "Go": fmt.Sprintf("%q", secret), "Go, spaced": fmt.Sprintf("% x", secret), "HTML": html.EscapeString(secret),
		"UTF-16": wide.String(), "gzip": packed.String(), "gzip, cut": cut.String(),
	} {
		if brokertest.Hides([]byte("before "+text+" after"), secret) == "" {
			t.Errorf("%s: not found in %q", form, text)
		}
		if found := brokertest.Hides([]byte("before "+text+" after"), secret[:20]+"another end"); found != "" {
			t.Errorf("%s: found as %s in what holds another", form, found)
		}
	}
	for before := range 7 {
		for after := range 7 {
			text := []byte(strings.Repeat("<", before) + secret + strings.Repeat("?", after))
			for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
				if brokertest.Hides([]byte(e.EncodeToString(text)), secret) != "base64" {
					t.Errorf("base64 with %d before and %d after: not found", before, after)
				}
			}
		}
	}
}
