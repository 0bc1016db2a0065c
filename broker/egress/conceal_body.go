package egress

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ebb/broker/egress/redact"
	"ebb/broker/transcript"
)

// concealQuery is a query or a form with marks in place of the values of parameters that hold
// credentials. What nobody can decode is one. hide looks through each of the others; nil = nobody does.
func concealQuery(query string, hide func(string) string) string {
	parts := strings.Split(query, "&")
	for i, p := range parts {
		name, _, _ := strings.Cut(p, "=")
		if plain, err := url.QueryUnescape(name); err != nil || isCredentialParameter(plain) {
			parts[i] = clip(name, 64) + "=" + redact.Mark
		} else if hide != nil {
			parts[i] = hide(p)
		}
	}
	return strings.Join(parts, "&")
}

// concealJSON is the beginning of a JSON text, or of several, with marks in place of the values of
// members that secret names, however they are escaped; hide looks through each string. It
// ends where the syntax does: behind are how many bytes come there.
func concealJSON(text string, secret func(name string) bool, hide func(string) string) (_ string, behind int) {
	var out strings.Builder
	// As most who read such a text: a mark of the order of bytes, and half a surrogate, end it for nobody.
	done := len(text) - len(strings.TrimPrefix(text, "\ufeff"))
	d := jsontext.NewDecoder(strings.NewReader(text[done:]), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	skipped := done
	for {
		from := skipped + int(d.InputOffset())
		t, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			out.WriteString(text[done:])
			return out.String(), 0
		case errors.Is(err, io.ErrUnexpectedEOF): // inside of a value of another name
			out.WriteString(text[done:from])
			out.WriteString(hide(text[from:]))
			return out.String(), 0
		case err != nil:
			out.WriteString(text[done:from])
			return out.String(), len(text) - from
		case t.Kind() != '"':
			continue
		}
		plain := t.String()
		if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n%2 == 1 && secret(plain) {
			out.WriteString(text[done : skipped+int(d.InputOffset())])
			out.WriteString(`:"` + redact.Mark + `"`)
			if err := d.SkipValue(); err != nil {
				if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
					return out.String(), 0
				}
				return out.String(), len(text) - skipped - int(d.InputOffset())
			}
			done = skipped + int(d.InputOffset())
			continue
		}
		if shown := hide(plain); shown != plain {
			quoted, err := jsontext.AppendQuote(nil, shown)
			if err != nil { // it is no UTF-8
				quoted = []byte(`"` + redact.Mark + `"`)
			}
			out.WriteString(text[done : from+strings.IndexByte(text[from:], '"')])
			out.Write(quoted)
			done = skipped + int(d.InputOffset())
		}
	}
}

// textTypes are media types that are text, beside text/* and what ends with +json or +xml.
var textTypes = []string{
	"application/json", "application/x-www-form-urlencoded", "application/xml", "application/x-ndjson", "application/jsonl", "application/json-seq", "application/graphql", "application/javascript",
	"application/yaml", "application/toml",
}

// asASCII are charsets in which all that is ASCII reads as it is, so that a secret is found in it; ""
// = none is named.
var asASCII = []string{"", "utf-8", "us-ascii", "iso-8859-1", "windows-1252"}

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
	switch {
	case most == 0:
		b.Withheld = transcript.NotAsked
	case !identity(h.Values("Content-Encoding")):
		b.Withheld = transcript.Compressed
	case err != nil || len(h.Values("Content-Type")) != 1 || !isText(media) || !slices.Contains(asASCII, strings.ToLower(parameters["charset"])) || strings.Contains(text, "\x00"):
		b.Withheld = transcript.NotText
	default:
		shown, behind := s.concealBody(media, text, whole)
		if behind > 0 {
			shown += transcript.LeftOut
		}
		// With marks it may be longer than it was.
		behind = min(behind+max(len(shown)-most, 0), len(text))
		b.LeftOut, b.Text = heard.bytes-int64(len(text))+int64(behind), bounded(shown, most)
		if b.Text == "" {
			b.LeftOut, b.Withheld = 0, transcript.NotText
		}
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

// concealBody does so by what the text is. behind are how many bytes at its end are left out, because
// nobody can say what they are. Each byte that is no UTF-8 becomes a U+FFFD: one of them, which most
// servers read over, must not have all the others withheld.
func (s *sending) concealBody(media, text string, whole bool) (_ string, behind int) {
	text = string([]rune(s.concealAdded(text, whole)))
	switch {
	case media == "application/x-www-form-urlencoded":
		return concealQuery(text, s.concealCalled), 0
	case strings.HasSuffix(media, "json") || strings.HasSuffix(media, "jsonl"):
		return concealJSON(text, s.called, s.concealCalled)
	case media == "application/json-seq": // RFC 7464: what stands before each text is white space here
		return concealJSON(strings.ReplaceAll(text, "\x1e", " "), s.called, s.concealCalled)
	}
	return s.concealCalled(text), 0
}
