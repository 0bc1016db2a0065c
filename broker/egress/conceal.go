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

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/egress/redact"
	"github.com/ebb-broker/ebb/broker/transcript"
)

// secretMembers and secretParameters are names of JSON members and parameters under which a sandbox
// sends or receives credentials of its own. They extend provider.CommonlyDisclosed.
var (
	secretMembers = []string{
		"password", "passwd", "passphrase", "secret", "token", "api_key", "apiKey", "apikey", "private_key", "privateKey", "secret_key", "secretKey", "authorization",
		"Authorization", "cookie", "assertion", "client_assertion", "jwt", "session", "session_id", "sessionId", "device_code", "credentials", "signature",
	}
	secretParameters = []string{"code", "code_verifier"}
)

// looksSecret matches credentials by their form: JOSE tokens (RFC 7515), private keys (RFC 7468),
// and the credentials after an authorization scheme (RFC 9110 section 11.4).
var looksSecret = lazyregexp.New(`eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)+` +
	`|-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)` +
	`|\b(?i:Bearer|Basic|DPoP) +[A-Za-z0-9._~+/=-]{8,}`)

var (
	// assigned matches a name and its value in any syntax: YAML, TOML, shells, JSON inside a
	// string.
	assigned = lazyregexp.New(`(?:^|[^A-Za-z0-9_.-])([A-Za-z0-9_.-]{2,64})(\\*["']?[ \t]*[:=][ \t]*\\*["']?)([^\s"'\\,;&<>{}()\[\]]+)`)
	// userinfo matches the userinfo of a URL (RFC 3986 section 3.2.1).
	userinfo = lazyregexp.New(`://[^\s/?#@"'<>\\]{1,256}@`)
)

// bounded returns text, or its beginning followed by transcript.LeftOut, in at most most bytes.
func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return clip(text, max(most-len(transcript.LeftOut), 0)) + transcript.LeftOut
}

// clip returns at most the first most bytes of text, without a split character.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// conceal replaces secrets in text by marks: the injected credential in all its forms, values that
// the provider declares as disclosed, values of other names for credentials, and text in the form
// of a credential. whole = false means that text was cut off: then an end that may begin a secret
// is left out.
func (s *outbound) conceal(text string, whole bool) string {
	return s.concealCalled(s.concealAdded(text, whole))
}

// concealAdded does this for the injected credential and for credentials that the response created.
// Text that the sandbox chooses cannot make it mask anything else.
func (s *outbound) concealAdded(text string, whole bool) string {
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
	return text
}

// concealCalled does this for values after a name of a credential, and for text in the form of one.
// A sandbox that writes such a name has the text after it masked. So bodies that consist of values
// are passed one value at a time.
func (s *outbound) concealCalled(text string) string {
	if s.named != nil {
		text, _ = s.named.Text(text)
	}
	text, _ = s.b.p.transcripts.secret.Text(text)
	text = looksSecret.ReplaceAllString(text, redact.Mark)
	text = userinfo.ReplaceAllString(text, "://"+redact.Mark+"@")
	var out strings.Builder
	done := 0
	for _, at := range assigned.FindAllStringSubmatchIndex(text, -1) {
		if isCredentialParameter(text[at[2]:at[3]]) {
			out.WriteString(text[done:at[6]])
			out.WriteString(redact.Mark)
			done = at[7]
		}
	}
	return out.String() + text[done:]
}

// called reports whether a member of this name holds a credential.
func (s *outbound) called(name string) bool {
	if isCredentialParameter(name) {
		return true
	}
	for _, x := range []*redact.Named{s.named, s.b.p.transcripts.secret} {
		if x == nil {
			continue
		}
		if _, n := x.Text(`"` + name + `":0`); n > 0 {
			return true
		}
	}
	return false
}

// concealHeaders returns the headers in names without secrets. In a value, the part after each
// question mark is treated as a query, because Location and Link hold URLs.
func (s *outbound) concealHeaders(h http.Header, names []string) map[string][]string {
	var out map[string][]string
	for _, name := range names {
		var values []string
		for i, v := range h[name] {
			if i == maxWrittenLines {
				values = append(values, transcript.LeftOut)
				break
			}
			parts := strings.Split(v, "?") // each of several URLs has a query
			for j := 1; j < len(parts); j++ {
				parts[j] = concealQuery(parts[j], nil)
			}
			values = append(values, bounded(s.conceal(strings.Join(parts, "?"), true), maxWrittenValue))
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

// concealQuery replaces the values of credential parameters in a query or form by marks. A
// parameter whose name cannot be decoded counts as one. hide, unless nil, is applied to each other
// parameter.
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

// concealJSON returns the beginning of one or more JSON texts. The values of members for which
// secret returns true are replaced by marks, however the names are escaped, and hide is applied to
// every other string. The result ends at the first syntax error; behind is the number of bytes from
// there on.
func concealJSON(text string, secret func(name string) bool, hide func(string) string) (_ string, behind int) {
	var out strings.Builder
	// Like most JSON readers, this one accepts a byte order mark and unpaired surrogates.
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
		case errors.Is(err, io.ErrUnexpectedEOF): // inside a value whose name is not secret
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
			if err != nil { // not valid UTF-8
				quoted = []byte(`"` + redact.Mark + `"`)
			}
			out.WriteString(text[done : from+strings.IndexByte(text[from:], '"')])
			out.Write(quoted)
			done = skipped + int(d.InputOffset())
		}
	}
}

// textTypes are text media types, besides text/* and types that end with +json or +xml.
var textTypes = []string{
	"application/json", "application/x-www-form-urlencoded", "application/xml", "application/x-ndjson", "application/jsonl", "application/json-seq", "application/graphql", "application/javascript",
	"application/yaml", "application/toml",
}

// asASCII are the charsets in which ASCII characters have their ASCII bytes, so that secrets are
// found. "" = no charset is given.
var asASCII = []string{"", "utf-8", "us-ascii", "iso-8859-1", "windows-1252"}

func isText(media string) bool {
	return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml") || slices.Contains(textTypes, media)
}

// bodyOf returns the part of a body that a transcript stores: the beginning, if the body is text
// that can be searched for secrets, and otherwise only its type and length. A digest is not stored,
// because it would confirm a guess of the text.
func (s *outbound) bodyOf(h http.Header, captured captured, most int) transcript.Body {
	if captured.bytes == 0 {
		return transcript.Body{}
	}
	media, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	b := transcript.Body{Bytes: captured.bytes}
	if err == nil {
		b.Type = bounded(s.conceal(media, true), 128)
	}
	text := string(captured.text[:min(len(captured.text), most)])
	whole := int64(len(text)) == captured.bytes
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
		// Marks may have made the text longer.
		behind = min(behind+max(len(shown)-most, 0), len(text))
		b.LeftOut, b.Text = captured.bytes-int64(len(text))+int64(behind), bounded(shown, most)
		if b.Text == "" {
			b.LeftOut, b.Withheld = 0, transcript.NotText
		}
	}
	return b
}

// clipped removes an incomplete character from the end of text.
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

// concealBody conceals a body by its media type. behind is the number of bytes left out at the end
// because they cannot be parsed. Each invalid UTF-8 byte becomes U+FFFD. Most servers accept such a
// byte, so that it must not cause the rest of the body to be withheld.
func (s *outbound) concealBody(media, text string, whole bool) (_ string, behind int) {
	text = string([]rune(s.concealAdded(text, whole)))
	switch {
	case media == "application/x-www-form-urlencoded":
		return concealQuery(text, s.concealCalled), 0
	case strings.HasSuffix(media, "json") || strings.HasSuffix(media, "jsonl"):
		return concealJSON(text, s.called, s.concealCalled)
	case media == "application/json-seq": // RFC 7464: the separator before each text counts as white space here
		return concealJSON(strings.ReplaceAll(text, "\x1e", " "), s.called, s.concealCalled)
	}
	return s.concealCalled(text), 0
}

// droppedHeaders are response headers that a sandbox must not get: they belong to the session of
// the credential at the upstream, or lead clients around the proxy.
var droppedHeaders = []string{"Set-Cookie", "Set-Cookie2", "Refresh", "Alt-Svc", "Proxy-Authenticate", "Authentication-Info", "Proxy-Authentication-Info", "Clear-Site-Data"}

// clean removes droppedHeaders from the headers of a response, and secrets from the others.
func (s *outbound) clean(h http.Header) {
	for _, name := range droppedHeaders {
		delete(h, name)
	}
	if s.named != nil {
		for _, values := range h {
			for i, v := range values {
				text, n := s.named.Text(v)
				values[i] = text
				s.redacted.Add(int64(n))
			}
		}
	}
	if s.redactor != nil {
		s.cleanOf(h, s.redactor)
	}
	for _, x := range s.hidden {
		s.cleanOf(h, x)
	}
}

// cleanOf replaces the secrets of one redactor by marks, and removes headers whose names hold one.
func (s *outbound) cleanOf(h http.Header, x *redactor) {
	for name, values := range h {
		for i, v := range values {
			text, n := x.Text(v)
			values[i] = text
			s.redacted.Add(int64(n))
		}
		if x.InName(name) {
			delete(h, name)
			s.redacted.Add(1)
		}
	}
}
