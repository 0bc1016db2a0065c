package redact

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// inNames returns a Redactor for names of header fields. HTTP ignores the case of these names (RFC
// 9110 section 5.1), so that servers and proxies change it. Base64 in lower case cannot be decoded,
// so that the encoded forms of the secrets are looked for. Only the first maxInName bytes of a form
// are used.
func inNames(secrets []string) (*Redactor, error) {
	var patterns []string
	for _, s := range secrets {
		forms := []string{s, hex.EncodeToString([]byte(s))}
		for before := range 3 {
			forms = append(forms, middle(base64.StdEncoding, s, before), middle(base64.URLEncoding, s, before))
		}
		for _, form := range forms {
			patterns = append(patterns, strings.ToLower(form[:min(len(form), maxInName)]))
		}
	}
	r, err := newRedactor(distinct(patterns))
	if err == nil {
		r.lower = true
	}
	return r, err
}

// maxInName is how many bytes of a form are looked for in names.
const maxInName = 64

// middle returns the base64 of a secret inside a text, with before bytes (mod 3) in front of it. It
// leaves out the characters that depend on the bytes beside the secret.
func middle(e *base64.Encoding, secret string, before int) string {
	text := e.WithPadding(base64.NoPadding).EncodeToString([]byte(strings.Repeat("\x00", before) + secret))
	return text[(before*8+5)/6 : (before+len(secret))*8/6]
}

// InName reports whether the name of a header or trailer contains a secret.
func (r *Redactor) InName(name string) bool {
	if len(name) < r.names.least {
		return false
	}
	if _, n := r.Text(name); n > 0 {
		return true
	}
	s := r.names.scan()
	s.search.look([]byte(strings.ToLower(name)), 0, true)
	return len(s.search.found) > 0
}
