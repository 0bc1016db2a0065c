package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MinSecret is how long a secret is at least, in bytes, to be looked for: what is
// shorter stands in texts by chance.
const MinSecret = 8

// forms is a secret as it stands in answers that echo it: as it is, in base64 of both
// alphabets wherever it begins there (so a pair of RFC 7617 is found too), in base16,
// escaped for URLs, JSON, HTML, and in UTF-16.
func forms(secret string) []string {
	out := []string{secret}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for before := range 3 {
			out = append(out, within(e, secret, before))
		}
	}
	lower := hex.EncodeToString([]byte(secret))
	out = append(out, lower, strings.ToUpper(lower))
	out = append(out, url.QueryEscape(secret), url.PathEscape(secret), strings.ReplaceAll(url.QueryEscape(secret), "+", "%20"))
	out = append(out, lowerPercent(url.QueryEscape(secret)), each(secret, "%%%02X"), each(secret, "%%%02x"))
	out = append(out, inJSON(secret)...)
	out = append(out, html.EscapeString(secret), each(secret, "&#%d;"), each(secret, "&#x%x;"), each(secret, "&#x%X;"))
	if utf8.ValidString(secret) {
		little, big := inUTF16(secret)
		out = append(out, little, big)
	}
	return distinct(out)
}

// within is what base64 makes of a secret in the middle of a text, with so many bytes
// (mod 3) before it: without the characters that depend on what stands beside it.
func within(e *base64.Encoding, secret string, before int) string {
	enc := e.WithPadding(base64.NoPadding).EncodeToString([]byte(strings.Repeat("\x00", before) + secret))
	first := (before*8 + 5) / 6
	whole := (before + len(secret)) * 8 / 6
	return enc[first:whole]
}

func inJSON(secret string) []string {
	var out []string
	if utf8.ValidString(secret) {
		if b, err := json.Marshal(secret); err == nil {
			inner := string(b[1 : len(b)-1])
			out = append(out, inner, strings.ReplaceAll(inner, "/", `\/`))
		}
		plain := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(secret)
		out = append(out, plain, strings.ReplaceAll(plain, "/", `\/`))
	}
	return append(out, each(secret, `\u%04x`), each(secret, `\u%04X`))
}

func inUTF16(secret string) (little, big string) {
	var l, b strings.Builder
	for _, u := range utf16.Encode([]rune(secret)) {
		l.Write([]byte{byte(u), byte(u >> 8)})
		b.Write([]byte{byte(u >> 8), byte(u)})
	}
	return l.String(), b.String()
}

// each writes every byte by a format. Of text that is no ASCII that is no form of JSON
// or HTML, and finds nothing.
func each(secret, format string) string {
	var b strings.Builder
	for i := range len(secret) {
		fmt.Fprintf(&b, format, secret[i])
	}
	return b.String()
}

// lowerPercent writes escapes with lower-case digits.
func lowerPercent(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

func distinct(all []string) []string {
	seen := map[string]bool{}
	out := all[:0]
	for _, s := range all {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
