package egress

import (
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"ebb/broker/egress/redact"
	"ebb/broker/transcript"
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

var (
	// assigned finds what has a name before it in any syntax: YAML, TOML, shells, JSON inside of a string.
	assigned = regexp.MustCompile(`(?:^|[^A-Za-z0-9_.-])([A-Za-z0-9_.-]{2,64})(\\*["']?[ \t]*[:=][ \t]*\\*["']?)([^\s"'\\,;&<>{}()\[\]]+)`)
	// userinfo finds who a URL says that calls (RFC 3986 section 3.2.1).
	userinfo = regexp.MustCompile(`://[^\s/?#@"'<>\\]{1,256}@`)
)

// bounded is the beginning of a text, which says that it is one.
func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return clip(text, max(most-len(transcript.LeftOut), 0)) + transcript.LeftOut
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
	return s.concealCalled(s.concealAdded(text, whole))
}

// concealAdded does so for the credential, and for what the answer has made. Nothing that a box says
// has more marked than that.
func (s *sending) concealAdded(text string, whole bool) string {
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

// concealCalled does so for what is called or looks like a secret. Who says such a name has what comes
// behind it marked: of a body that has values it is given one of them at a time.
func (s *sending) concealCalled(text string) string {
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
func (s *sending) called(name string) bool {
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

// concealHeaders are those of some names, without secrets. A value is concealed as a query is behind a
// question mark: Location and Link hold URLs.
func (s *sending) concealHeaders(h http.Header, names []string) map[string][]string {
	var out map[string][]string
	for _, name := range names {
		var values []string
		for i, v := range h[name] {
			if i == maxWrittenLines {
				values = append(values, transcript.LeftOut)
				break
			}
			parts := strings.Split(v, "?") // of several URLs each has a query
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
