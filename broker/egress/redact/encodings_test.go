package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"io"
	"math/rand/v2"
	"mime/quotedprintable"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/egress/redact"
)

// encoding is a way in which a server writes a text that it echoes.
type encoding struct {
	name string
	of   func(string) string
	text bool // only for text in UTF-8: JSON and HTML hold no other
}

// encodings are those in which servers write text that they echo. The names say which software uses
// them.
var encodings = []encoding{
	{"none", func(s string) string { return s }, false},
	{"base64", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }, false},
	{"base64url", func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }, false},
	{"base64, 76 a line", func(s string) string { return wrapped(base64.StdEncoding.EncodeToString([]byte(s)), 76, "\r\n") }, false},
	{"base64, PEM", func(s string) string { return wrapped(base64.StdEncoding.EncodeToString([]byte(s)), 64, "\n") }, false},
	{"base64, short lines", func(s string) string { return wrapped(base64.URLEncoding.EncodeToString([]byte(s)), 20, "\n") }, false},
	{"hex", hexOf, false},
	{"HEX", func(s string) string { return strings.ToUpper(hexOf(s)) }, false},
	{"hEx", func(s string) string { return alternating(hexOf(s)) }, false},
	{"hex with colons", func(s string) string { return separated(hexOf(s), ":") }, false},
	{"HEX with colons", func(s string) string { return separated(strings.ToUpper(hexOf(s)), ":") }, false},
	{"HEX with hyphens", func(s string) string { return separated(strings.ToUpper(hexOf(s)), "-") }, false},
	{"hex with spaces", func(s string) string { return separated(hexOf(s), " ") }, false},
	{"url.QueryEscape", url.QueryEscape, false},
	{"url.PathEscape", url.PathEscape, false},
	{"encodeURIComponent", func(s string) string { return percent(s, "-_.!~*'()", "%%%02X") }, false},
	{"encodeURI", func(s string) string { return percent(s, "-_.!~*'();/?:@&=+$,#", "%%%02X") }, false},
	{"Python quote", func(s string) string { return percent(s, "_.-~/", "%%%02X") }, false},
	{"Python quote_plus", func(s string) string { return strings.ReplaceAll(percent(s, "_.-~ ", "%%%02X"), " ", "+") }, false},
	{"percent, lower case", func(s string) string { return percent(s, "", "%%%02x") }, false},
	{"percent, each byte", func(s string) string { return each(s, "%%%02X") }, false},
	{"json.Marshal", func(s string) string { return inJSON(s, true) }, true},
	{"JSON", func(s string) string { return inJSON(s, false) }, true},
	{"JSON of PHP", func(s string) string { return strings.ReplaceAll(escapedASCII(inJSON(s, false)), "/", `\/`) }, true},
	{"Gson", gson, true},
	{`JSON, each \u`, func(s string) string { return eachUnit(s, `\u%04x`) }, true},
	{`JSON, each \U`, func(s string) string { return eachUnit(s, `\u%04X`) }, true},
	{"template.JSEscapeString", template.JSEscapeString, true},
	{`each \x`, func(s string) string { return each(s, `\x%02x`) }, false},
	{"octal", func(s string) string { return each(s, `\%03o`) }, false},
	{"strconv.Quote", func(s string) string { q := strconv.Quote(s); return q[1 : len(q)-1] }, false},
	{"html.EscapeString", html.EscapeString, true},
	{"html/template", inTemplate, true},
	{"HTML, hex entities", func(s string) string { return entities(s, "&#x%X;") }, true},
	{"HTML, quoted entities", func(s string) string { return namedEntities.Replace(s) }, true},
	{"HTML, each &#", func(s string) string { return eachRune(s, "&#%d;") }, true},
	{"HTML, each &#x", func(s string) string { return eachRune(s, "&#x%x;") }, true},
	{"HTML, each &#x0", func(s string) string { return eachRune(s, "&#x%04X;") }, true},
	{"quoted-printable", quotedPrintable, false},
	{"quoted-printable, short lines", func(s string) string { return wrapped(each(s, "=%02X"), 21, "=\n") }, false},
	{"UTF-16, little", func(s string) string { return inUTF16(s, 0) }, true},
	{"UTF-16, big", func(s string) string { return inUTF16(s, 1) }, true},
}

func hexOf(s string) string { return hex.EncodeToString([]byte(s)) }

// wrapped splits s into lines of width characters.
func wrapped(s string, width int, end string) string {
	var b strings.Builder
	for len(s) > width {
		b.WriteString(s[:width] + end)
		s = s[width:]
	}
	return b.String() + s
}

func separated(digits, by string) string { return strings.TrimSuffix(wrapped(digits, 2, by), by) }

func alternating(s string) string {
	b := []byte(s)
	for i := range b {
		if i%3 == 1 {
			b[i] = bytes.ToUpper(b[i : i+1])[0]
		}
	}
	return string(b)
}

// percent escapes all characters except letters, digits and those in safe.
func percent(s, safe, format string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte(safe, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, format, c)
		}
	}
	return b.String()
}

func each(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

func eachRune(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, format, r)
	}
	return b.String()
}

func eachUnit(s, format string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, format, u)
	}
	return b.String()
}

func inJSON(s string, escape bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escape)
	_ = e.Encode(s)
	return strings.TrimSpace(b.String())[1 : b.Len()-2]
}

func escapedASCII(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			b.WriteString(eachUnit(string(r), `\u%04x`))
		}
	}
	return b.String()
}

// gson returns a string as Gson writes it by default (JsonWriter, HTML_SAFE_REPLACEMENT_CHARS).
func gson(s string) string {
	return strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "=", `\u003d`, "'", `\u0027`).Replace(inJSON(s, false))
}

// inTemplate returns a string as html/template writes it in an attribute without quotes.
func inTemplate(s string) string {
	var b strings.Builder
	if err := template.Must(template.New("").Parse(`<a title={{.}}>`)).Execute(&b, s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), "<a title="), ">")
}

// entities escapes all characters except ASCII letters and digits, as lodash and Mustache do for
// some.
func entities(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		if r >= utf8.RuneSelf || percent(string(r), "", "") != "" {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, format, r)
		}
	}
	return b.String()
}

var namedEntities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;", "+", "&plus;", "=", "&equals;", "/", "&sol;", `\`, "&bsol;", "%", "&percnt;", "Ω", "&ohm;", "é", "&eacute;")

func quotedPrintable(s string) string {
	var b strings.Builder
	w := quotedprintable.NewWriter(&b)
	w.Binary = true
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return b.String()
}

// inUTF16 returns a string in UTF-16, little endian (0) or big endian (1).
func inUTF16(s string, order int) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		b.WriteByte(byte(u >> (8 * order)))
		b.WriteByte(byte(u >> (8 * (1 - order))))
	}
	return b.String()
}

// chain returns a secret in one encoding inside another, each with other text around it. lost
// reports that the result does not hold the secret any more. It is also true for UTF-16 around
// another encoding of text that is not ASCII, and for UTF-16 around UTF-16.
func chain(outer, inner encoding, secret string, around [4]string) (_ string, lost bool) {
	text := inner.of(around[1] + secret + around[2])
	lost = outer.text && !utf8.ValidString(text) || outer.name == "html/template" && strings.Contains(text, "\x00")
	wide := strings.HasPrefix(outer.name, "UTF-16") && inner.name != "none"
	ascii := !strings.ContainsFunc(secret, func(r rune) bool { return r >= utf8.RuneSelf }) && !strings.Contains(text, "\x00")
	return outer.of(around[0] + text + around[3]), lost || wide && !ascii
}

// found returns why a secret is not removed from a text that holds it in a form, "" = it is
// removed.
func found(r *redact.Redactor, before, form, after string, length int) string {
	out, n := r.Text(before + form + after)
	if !strings.HasPrefix(out, before) || !strings.HasSuffix(out, after) {
		return fmt.Sprintf("what stands beside it is gone: %q", out)
	}
	gone := len(before+form+after) - (len(out) - n*len(redact.Mark))
	if n != 1 || gone*2 < length {
		return fmt.Sprintf("%d marks, and %d of %d bytes are gone: %q of %q", n, gone, length, out, before+form+after)
	}
	return ""
}

// E83 and E85: no encoding that a server may apply hides a secret, neither alone nor inside
// another.
//
//ebb:invariant I8 The redactor finds a secret in every encoding that servers use, and in every combination of two nested encodings
func TestEncodings(t *testing.T) {
	t.Parallel()
	for _, s := range []string{secret, "ghp_0123456789abcdefghijABCDEFGHIJ123456", "AKIA/secret+key==", "pass'word&<x>=\"1\"/%41\\u0041", "12345678", "correct horse/battery+staple=", strings.Repeat("k=/+", 40)} {
		r := mustNew(t, s)
		for _, outer := range encodings {
			for _, inner := range encodings {
				form, lost := chain(outer, inner, s, [4]string{})
				if why := found(r, "before ", form, " after", len(form)); why != "" && !lost {
					t.Errorf("%s of %s of %q: %s", outer.name, inner.name, s, why)
				}
			}
		}
	}
}

// The last character of a secret in base64 may be escaped, with no further base64 after it.
//
//ebb:invariant I8 The redactor finds a secret in base64 or base16 text that contains escapes, also if its last character is escaped
func TestLastCharacterIsEscaped(t *testing.T) {
	t.Parallel()
	for n := 11; n < 60; n++ {
		s := random(uint64(n), n) + "?"
		r := mustNew(t, s)
		for before := range 3 {
			text := strings.Repeat("a", before) + s
			for _, form := range []string{
				strings.ReplaceAll(base64.StdEncoding.EncodeToString([]byte(text)), "/", `\/`), url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(text))), html.EscapeString(base64.StdEncoding.EncodeToString([]byte(text))),
			} {
				if why := found(r, `{"a":"`, form, `"}`, n); why != "" {
					t.Errorf("%d bytes, %d before them: %s", n+1, before, why)
				}
			}
		}
	}
}

// Text without a secret is unchanged: the files of this repository, bodies of many kinds, and
// encodings of both.
//
//ebb:invariant I8 The redactor leaves text without a secret unchanged
func TestNothingElseIsMarked(t *testing.T) {
	t.Parallel()
	texts := [][]byte{}
	for _, body := range bodies() {
		texts = append(texts, body)
	}
	files, err := filepath.Glob("../../../docs/*/*.md")
	more, err2 := filepath.Glob("../*.go")
	if err != nil || err2 != nil || len(files) == 0 || len(more) == 0 {
		t.Fatal(files, more, err, err2)
	}
	for _, name := range append(files, more...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	rng := rand.New(rand.NewPCG(1, 93))
	for range 4 {
		s := secretOf(rng)
		r := mustNew(t, s, random(rng.Uint64(), 40))
		for _, text := range texts {
			if out, n := r.Text(string(text)); n != 0 || out != string(text) {
				t.Errorf("%q: %d marks in %.60q", s, n, text)
			}
		}
		for _, e := range encodings {
			plain := texts[rng.IntN(len(texts))]
			text := e.of(string(plain[:min(len(plain), 200)]))
			if out, n := r.Text(text); n != 0 || out != text {
				t.Errorf("%q: %d marks in %s, %.60q", s, n, e.name, text)
			}
		}
	}
}

// secretOf returns a random secret of a random alphabet.
func secretOf(rng *rand.Rand) string {
	alphabets := []string{
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=",
		"0123456789abcdef", " !\"#$%&'()*+,-./0123456789:;<=>?@ABCXYZ[\\]^_`abcxyz{|}~", `%\&=+;#/"<>' ux41`, "aé€𝄞Ωx=/+",
	}
	alphabet := []rune(alphabets[rng.IntN(len(alphabets))])
	out := make([]rune, redact.MinSecret+rng.IntN(60))
	for i := range out {
		out[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(out)
}

// aroundOf returns random text to put beside a secret.
func aroundOf(rng *rand.Rand) string {
	if rng.IntN(2) == 0 {
		return strings.Repeat("user:pass, ", 4)[rng.IntN(11):][:rng.IntN(30)]
	}
	out := make([]byte, rng.IntN(12))
	for i := range out {
		out[i] = ' ' + byte(rng.IntN(95))
	}
	return string(out)
}

// Random secrets in random chains of two encodings, with random text around them, are found without
// exception.
func FuzzEncodings(f *testing.F) {
	for seed := range uint64(128) {
		f.Add(seed)
	}
	f.Fuzz(chains)
}

// chains tries random chains of encodings of a random secret.
func chains(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 17))
	s := secretOf(rng)
	r := mustNew(t, s)
	for range 8 {
		outer, inner := encodings[rng.IntN(len(encodings))], encodings[rng.IntN(len(encodings))]
		var around [4]string
		for i := range around {
			around[i] = aroundOf(rng)
		}
		form, lost := chain(outer, inner, s, around)
		alone, _ := chain(outer, inner, s, [4]string{})
		if lost {
			continue
		}
		if why := found(r, `{"a":"`, form, `"}`, len(alone)); why != "" {
			t.Fatalf("%s of %s of %q, %q around: %s", outer.name, inner.name, s, around, why)
		}
		text, pieces := `{"a":"`+form+`"}`, [][]byte(nil)
		for rest := []byte(text); len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(1+rng.IntN(40)))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		want, _ := r.Text(text)
		if out, err := drain(r.Reader(io.NopCloser(&cut{pieces: pieces, err: io.EOF}), nil), rooms[rng.IntN(2)]); err != nil || !as(out, want) {
			t.Fatalf("%s of %s of %q, %q around, in pieces: %q, %v; want %q", outer.name, inner.name, s, around, out, err, want)
		}
	}
}
