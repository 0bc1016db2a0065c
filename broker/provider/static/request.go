package static

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ebb/broker/provider"
)

// elsewhere refuses a request; why holds nothing that the sandbox wrote.
func elsewhere(why string) error { return fmt.Errorf("static: %w: %s", provider.ErrElsewhere, why) }

// origin is where a request goes, host:port in lower case, if it goes over https
// and if everybody would say that it goes there. Compared byte by byte: case folding
// of Unicode makes a K of the Kelvin sign.
func origin(r *http.Request) (string, error) {
	u := r.URL
	switch {
	case u == nil || u.Opaque != "" || u.Scheme != "https":
		return "", elsewhere("it is not https")
	case u.User != nil:
		return "", elsewhere("its URL holds a login")
	case r.Host != "" && r.Host != u.Host:
		return "", elsewhere("it names one host and goes to another")
	}
	host := []byte(u.Host)
	for i, b := range host {
		if b >= 'A' && b <= 'Z' {
			host[i] = b + 'a' - 'A'
		}
	}
	if !hostForm.Match(host) {
		return "", elsewhere("its host has another form than a name and a port")
	}
	return withPort(string(host)), nil
}

// overrides are headers that make some servers take a request for another one.
var overrides = []string{
	"x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url", "x-original-uri", "x-original-path", "x-forwarded-path", "x-forwarded-uri",
}

// target is what a request asks for, if every server reads it in the same way. What
// one server takes for a segment and another for a step up is refused.
func target(r *http.Request) (path []string, err error) {
	for k := range r.Header {
		if slices.Contains(overrides, folded(k)) {
			return nil, elsewhere("a header asks servers to take it for another request")
		}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || strings.ContainsFunc(r.URL.RawQuery, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, elsewhere("its query is not well formed")
	}
	if query.Has("_method") {
		return nil, elsewhere("its query asks servers to take it for another request")
	}
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/")
	if !ok {
		return nil, elsewhere("its path is not absolute")
	}
	raw := strings.Split(rest, "/")
	for i, s := range raw {
		segment, err := url.PathUnescape(s)
		strange := strings.ContainsFunc(segment, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`/\;%`, r) })
		if err != nil || strange || segment == "." || segment == ".." || segment == "" && i < len(raw)-1 {
			return nil, elsewhere("servers can read its path in more than one way")
		}
		path = append(path, segment)
	}
	return path, nil
}

// errOver is what a lease gets that has ended.
var errOver = errors.New("static: the lease is over")
