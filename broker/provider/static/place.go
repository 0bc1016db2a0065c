package static

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Place is where in a request the secret goes. Exactly one of Header, Basic and
// Query is set. What the sandbox has put there is replaced.
type Place struct {
	Header string `json:"header,omitempty"` // such as Authorization or X-Api-Key
	Prefix string `json:"prefix,omitempty"` // of the header's value, such as "Bearer "
	Basic  *Basic `json:"basic,omitempty"`  // Authorization: Basic (RFC 7617)
	Query  string `json:"query,omitempty"`  // a parameter; servers tend to log those
}

// Basic is a user and a password, of which the secret is one.
type Basic struct {
	User     string `json:"user,omitempty"`     // then the secret is the password
	Password string `json:"password,omitempty"` // without User, the secret is the user, and this the password, which can be empty
}

// maxPair is how long the other part of Basic is at most.
const maxPair = 256

var queryForm = regexp.MustCompile(`^[A-Za-z0-9_.~-]{1,64}$`)

func (p Place) check(bad func(string, ...any)) {
	set := 0
	for _, is := range []bool{p.Header != "", p.Basic != nil, p.Query != ""} {
		if is {
			set++
		}
	}
	if p.Header != "" {
		if err := provider.CheckHeader(p.Header, p.Prefix); err != nil {
			bad("inject: %w", err)
		}
	}
	switch {
	case set != 1:
		bad("inject: say header, basic or query, and only one")
	case p.Header == "" && p.Prefix != "":
		bad("inject.prefix: it is what a header's value begins with: there is no header")
	case p.Basic != nil && (strings.Contains(p.Basic.User, ":") || !plain(p.Basic.User) || !plain(p.Basic.Password)):
		bad("inject.basic: a user holds no colon, and neither part control characters")
	case p.Basic != nil && p.Basic.User != "" && p.Basic.Password != "":
		bad("inject.basic: the secret is the password of user, or the user of password: leave one out")
	case p.Basic != nil && len(p.Basic.User)+len(p.Basic.Password) > maxPair:
		bad("inject.basic: the part beside the secret has at most %d bytes", maxPair)
	case p.Query != "" && !queryForm.MatchString(p.Query):
		bad("inject.query: %q is not the name of a parameter", p.Query)
	}
}

// plain reports text without control characters.
func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 })
}

// errUnfit says nothing of the secret itself.
var errUnfit = errors.New("static: the secret does not fit where it has to go: it has not 8 to 8192 bytes, or holds line ends or other characters that do not belong there; put it again without them")

// fits reports whether a secret can stand in its place, without becoming anything
// else there: a line end in a header would be the next header.
func (p Place) fits(s secret.Secret) error {
	text := s.Reveal()
	ok := provider.CanInject(s) && plain(text)
	switch {
	case p.Header != "":
		ok = ok && strings.TrimSpace(text) == text && !strings.ContainsFunc(text, func(r rune) bool { return r > '~' })
	case p.Basic != nil && p.Basic.User == "":
		ok = ok && !strings.Contains(text, ":")
	}
	if !ok {
		return errUnfit
	}
	return nil
}

// put sets the place to the secret, which fits the place.
func (p Place) put(r *http.Request, s secret.Secret) {
	text := s.Reveal()
	if p.Query != "" {
		r.URL.RawQuery = withParameter(r.URL.RawQuery, p.Query, text)
		return
	}
	name, value := p.Header, p.Prefix+text
	if p.Basic != nil {
		user, password := p.Basic.User, text
		if user == "" {
			user, password = text, p.Basic.Password
		}
		name, value = "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	provider.SetHeader(r, name, value)
}

// withParameter removes a parameter from a query that parses, and adds it.
func withParameter(query, name, value string) string {
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if k, err := url.QueryUnescape(key); pair != "" && err == nil && k != name {
			kept = append(kept, pair)
		}
	}
	return strings.Join(append(kept, url.QueryEscape(name)+"="+url.QueryEscape(value)), "&")
}
