package api

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

// form is one strictly parsed form. An absent and an empty parameter are the
// same (RFC 6749 section 3.2).
type form struct {
	v         [numParams]string // every parameter except resource and audience
	resources []string
	audiences []string
}

func (f *form) get(p param) string { return f.v[p] }

// has reports whether the parameter has a value.
func (f *form) has(p param) bool {
	switch p {
	case pResource:
		return len(f.resources) > 0
	case pAudience:
		return len(f.audiences) > 0
	}
	return f.v[p] != ""
}

const (
	maxPairs   = 128
	maxTargets = 8 // resources and audiences in one request
)

func malformed(public string) error { return broker.E(broker.Invalid, public, nil) }

// readForm reads the form of a POST. It requires the content type of a form and
// an empty query string (RFC 6749 sections 2.3.1 and 3.2).
func readForm(r *http.Request, limit int64) (*form, error) {
	if r.URL.RawQuery != "" {
		return nil, malformed("Send parameters in the request body, not in the URL.")
	}
	if !web.IsType(r.Header, "application/x-www-form-urlencoded") {
		return nil, malformed("Send application/x-www-form-urlencoded.")
	}
	body, err := web.ReadBody(r, limit)
	if err != nil {
		return nil, err
	}
	return parseForm(string(body))
}

// parseForm parses application/x-www-form-urlencoded without a map. The values
// are slices of s unless they contain escapes.
func parseForm(s string) (*form, error) {
	f := &form{}
	var seen uint64
	for pairs := 0; s != ""; pairs++ {
		var pair string
		pair, s, _ = strings.Cut(s, "&")
		if pairs == maxPairs {
			return nil, malformed("The form has too many parameters.")
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, ok := unescape(rawName)
		if !ok {
			return nil, malformed("The form is not well-formed application/x-www-form-urlencoded.")
		}
		p := known(name)
		value, ok := unescape(rawValue)
		if !ok {
			return nil, malformed("The form is not well-formed application/x-www-form-urlencoded.")
		}
		if p == numParams {
			continue
		}
		if p != pResource && p != pAudience {
			if seen&(1<<p) != 0 {
				return nil, malformed("The parameter " + p.String() + " is repeated.")
			}
			seen |= 1 << p
		}
		escaped := len(value) < len(rawValue) // a percent escape is longer than its byte
		if err := f.set(p, value, escaped); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// set sets a parameter. escaped reports whether the form had percent escapes in value. Without them,
// unescape has checked that value is printable ASCII, with a space for each +.
func (f *form) set(p param, value string, escaped bool) error {
	if value == "" {
		return nil
	}
	switch p {
	case pResource:
		f.resources = append(f.resources, value)
	case pAudience:
		f.audiences = append(f.audiences, value)
	case pScope, pAuthorizationDetails, pReason, pBindingMessage:
		f.v[p] = value // validated by their own parsers, with their own error codes
	default:
		if escaped && !printable(value, ' ') {
			return malformed("The parameter " + p.String() + " has characters other than printable ASCII.")
		}
		f.v[p] = value
	}
	if len(f.resources)+len(f.audiences) > maxTargets {
		return broker.E(broker.InvalidTarget, "The request names too many targets.", nil)
	}
	return nil
}

// unescape decodes one name or value. ok is false for a bad escape, a byte that
// must be escaped, NUL, or invalid UTF-8.
func unescape(s string) (out string, ok bool) {
	if !printable(s, '!') {
		return "", false
	}
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 { // faster than ContainsAny: tokens are long
		return s, true
	}
	out, err := url.QueryUnescape(s)
	return out, err == nil && strings.IndexByte(out, 0) < 0 && utf8.ValidString(out)
}

// printable reports whether s contains only printable ASCII from the character first on.
func printable(s string, first byte) bool {
	for i := range len(s) {
		if s[i] < first || s[i] > '~' {
			return false
		}
	}
	return true
}
