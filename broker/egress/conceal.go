package egress

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ebb/broker/egress/redact"
	"ebb/broker/egress/transcript"
)

// secretMembers and secretParameters are names beside those that are commonly disclosed under which
// a box sends credentials of its own, or is told some.
var (
	secretMembers = []string{
		"password", "passwd", "passphrase", "secret", "token", "api_key", "apiKey", "apikey", "private_key", "privateKey", "secret_key", "secretKey", "authorization",
		"Authorization", "cookie", "assertion", "client_assertion", "jwt", "session", "session_id", "sessionId", "device_code", "credentials", "signature",
	}
	secretParameters = []string{"code", "code_verifier"}
)

// looksSecret finds what is a credential by its form: tokens of JOSE (RFC 7515), private keys (RFC
// 7468), and what stands behind a scheme (RFC 9110 section 11.4).
var looksSecret = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)+` +
	`|-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)` +
	`|\b(?i:Bearer|Basic|DPoP) +[A-Za-z0-9._~+/=-]{8,}`)

// leftOut is written where a text goes on.
const leftOut = "[left out]"

// bounded is the beginning of a text, which says that it is one.
func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return clip(text, most-len(leftOut)) + leftOut
}

// clip is the first bytes of a text, up to the end of a character.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// conceal is a text with marks in place of secrets: of the credential in all its forms, of what the
// provider says that answers disclose, of what others call so, and of what looks like one. whole:
// it does not go on; of one that does, what may begin a secret at its end is left out.
func (s *sending) conceal(text string, whole bool) string {
	find := func(x *redactor) {
		if whole {
			text, _ = x.Text(text)
		} else {
			text, _ = x.Beginning(text)
		}
	}
	if s.redactor != nil {
		find(s.redactor)
	}
	for _, x := range s.hidden {
		find(x)
	}
	if s.named != nil {
		text, _ = s.named.Text(text)
	}
	text, _ = s.b.p.transcripts.secret.Text(text)
	return looksSecret.ReplaceAllString(text, redact.Mark)
}

// concealHeaders are those of some names, without secrets. A value is hidden as a query is from its
// question mark on: Location and Link hold URLs.
func (s *sending) concealHeaders(h http.Header, names []string) map[string][]string {
	var out map[string][]string
	for _, name := range names {
		var values []string
		for i, v := range h[name] {
			if i == maxWrittenLines {
				values = append(values, leftOut)
				break
			}
			before, query, is := strings.Cut(v, "?")
			if is {
				v = before + "?" + concealQuery(query)
			}
			values = append(values, bounded(s.conceal(v, true), maxWrittenValue))
		}
		if values != nil {
			if out == nil {
				out = map[string][]string{}
			}
			out[name] = values
		}
	}
	return out
}

// concealQuery is a query or a form with marks in place of the values of parameters that hold
// credentials. What nobody can decode is one.
func concealQuery(query string) string {
	parts := strings.Split(query, "&")
	for i, p := range parts {
		name, _, _ := strings.Cut(p, "=")
		if plain, err := url.QueryUnescape(name); err != nil || isCredentialParameter(plain) {
			parts[i] = clip(name, 64) + "=" + redact.Mark
		}
	}
	return strings.Join(parts, "&")
}

// concealJSON is the beginning of a JSON text, or of several, with marks in place of the values of
// members that hold credentials, however their names are escaped. It ends where the syntax does.
func concealJSON(text string) string {
	var out strings.Builder
	d := jsontext.NewDecoder(bytes.NewReader([]byte(text)), jsontext.AllowDuplicateNames(true))
	done := 0
	for {
		t, err := d.ReadToken()
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
				out.WriteString(text[done:]) // inside of a value of another name
			} else {
				out.WriteString(text[done:d.InputOffset()])
			}
			return out.String()
		}
		kind, n := d.StackIndex(d.StackDepth())
		if kind != '{' || n%2 == 0 || t.Kind() != '"' || !isCredentialParameter(t.String()) {
			continue
		}
		out.WriteString(text[done:d.InputOffset()])
		out.WriteString(`:"` + redact.Mark + `"`)
		if d.SkipValue() != nil {
			return out.String()
		}
		done = int(d.InputOffset())
	}
}

// textTypes are media types that are text, beside text/* and what ends with +json or +xml.
var textTypes = []string{
	"application/json", "application/x-www-form-urlencoded", "application/xml", "application/x-ndjson", "application/jsonl", "application/json-seq", "application/graphql", "application/javascript",
	"application/yaml", "application/toml",
}

func isText(media string) bool {
	return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml") || slices.Contains(textTypes, media)
}

// bodyOf is what is written down of a body: the beginning of one that can be read for secrets, and of
// all others what they are and how long. A digest would be no less: who guesses the text has it.
func (s *sending) bodyOf(h http.Header, heard heard, most int) transcript.Body {
	if heard.bytes == 0 {
		return transcript.Body{}
	}
	media, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	b := transcript.Body{Bytes: heard.bytes}
	if err == nil {
		b.Type = bounded(s.conceal(media, true), 128)
	}
	text := string(heard.text[:min(len(heard.text), most)])
	whole := int64(len(text)) == heard.bytes
	if !whole {
		text = clipped(text)
	}
	charset := strings.ToLower(parameters["charset"])
	switch {
	case most == 0:
		b.Withheld = transcript.NotAsked
	case !identity(h.Values("Content-Encoding")):
		b.Withheld = transcript.Compressed
	case err != nil || len(h.Values("Content-Type")) != 1 || !isText(media) || charset != "" && charset != "utf-8" && charset != "us-ascii" || !utf8.ValidString(text) || strings.Contains(text, "\x00"):
		b.Withheld = transcript.NotText
	default:
		b.LeftOut = heard.bytes - int64(len(text))
		b.Text = clip(s.concealBody(media, text, whole), most)
	}
	return b
}

// clipped is a text that was cut anywhere, without the character that the cut went through.
func clipped(text string) string {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if last := text[len(text)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRuneInString(last) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

// concealBody does so by what the text is.
func (s *sending) concealBody(media, text string, whole bool) string {
	text = s.conceal(text, whole)
	switch {
	case media == "application/x-www-form-urlencoded":
		return concealQuery(text)
	case strings.HasSuffix(media, "json") || strings.HasSuffix(media, "jsonl"):
		return concealJSON(text)
	}
	return text
}
