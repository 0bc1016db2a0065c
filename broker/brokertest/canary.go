package brokertest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Hides looks for a secret in data, in the forms in which secrets leak: as it is,
// backwards, in base64 of both alphabets at any offset, in hexadecimal, as a list of
// bytes, escaped for URLs, JSON, Go and HTML, as UTF-16, and all of these inside gzip. It
// returns the name of the first form found, or "". A secret has at least 16 bytes.
func Hides(data []byte, secret string) string {
	if form := hidesPlainly(data, secret); form != "" {
		return form
	}
	for rest := data; ; {
		i := bytes.Index(rest, []byte{0x1f, 0x8b, 0x08})
		if i < 0 {
			return ""
		}
		rest = rest[i:]
		if z, err := gzip.NewReader(bytes.NewReader(rest)); err == nil {
			inner, _ := io.ReadAll(io.LimitReader(z, 64<<20)) // the readable part: it may end early
			if form := hidesPlainly(inner, secret); form != "" {
				return "gzip, " + form
			}
		}
		rest = rest[3:]
	}
}

func hidesPlainly(data []byte, secret string) string {
	lower := bytes.ToLower(data)
	for form, texts := range formsOf(secret) {
		for _, text := range texts {
			if bytes.Contains(data, []byte(text)) || form == "hex" && bytes.Contains(lower, []byte(text)) {
				return form
			}
		}
	}
	return ""
}

func formsOf(secret string) map[string][]string {
	raw := []byte(secret)
	back := slices.Clone(raw)
	slices.Reverse(back)
	var wide []byte
	var decimal []string
	for _, c := range raw {
		wide = append(wide, c, 0)
		decimal = append(decimal, strconv.Itoa(int(c)))
	}
	inJSON, _ := json.Marshal(secret) // < > & escaped
	quoted := strconv.Quote(secret)
	out := map[string][]string{
		"raw": {secret}, "reversed": {string(back)}, "hex": {hex.EncodeToString(raw)}, "UTF-16": {string(wide)},
		"bytes": {strings.Join(decimal, " "), strings.Join(decimal, ",")},
		"URL":   {url.QueryEscape(secret), url.PathEscape(secret)},
		"JSON":  {strings.Trim(string(inJSON), `"`), strings.ReplaceAll(strings.Trim(string(inJSON), `"`), "/", `\/`)},
		"Go":    {quoted[1 : len(quoted)-1], fmt.Sprintf("% x", secret)},
		"HTML":  {html.EscapeString(secret)},
	}
	for offset := range 3 { // three bytes become four letters, so the text before shifts them
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := e.EncodeToString(append(make([]byte, offset), raw...))
			// The first and the last letters depend on the neighbours.
			out["base64"] = append(out["base64"], text[(offset*8+5)/6:len(text)-1])
		}
	}
	return out
}
