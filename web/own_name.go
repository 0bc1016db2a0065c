package web

import (
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// OwnName is the URL of pages for people, where this server has public as its public URL. On
// loopback they have a host name that nobody guesses, made of key (32 bytes): cookies go to
// every port of a host, and to a name that is known any program of this machine leads a
// browser, to its own port. Chromium and Firefox take *.localhost for this machine without
// asking anybody (RFC 6761 section 6.3). Everywhere else it is public.
func OwnName(public string, key []byte) (string, error) {
	u, err := CheckPublicURL(public)
	if err != nil {
		return "", err
	}
	if len(key) != 32 {
		return "", errors.New("the name of pages is made of a key of 32 bytes")
	}
	switch host := u.Hostname(); {
	case u.Scheme != "http":
		return public, nil
	case host != "localhost" && host != "127.0.0.1" && host != "::1":
		return public, nil // no browser would come here by the name
	}
	u.Host = "ebb-" + strings.ToLower(base32.StdEncoding.EncodeToString(key)[:16]) + ".localhost:" + u.Port()
	u.Host = strings.TrimSuffix(strings.TrimSuffix(u.Host, ":80"), ":") // as browsers say it
	return u.String(), nil
}

// checkPagesURL parses the URL of pages beside the public one: the same server by another
// name of loopback.
func checkPagesURL(raw string, public *url.URL) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || public.Scheme != "http" || u.Path != public.Path || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.String() != raw || strings.ToLower(u.Host) != u.Host || !strings.HasSuffix(u.Hostname(), ".localhost") {
		return nil, errors.New("pages are at the public URL, or on loopback at another *.localhost with its path")
	}
	return u, nil
}

// PagesURL is where pages for people are: the public URL, or on loopback a name of their own.
func (m *Mux) PagesURL() string { return m.pagesURL }

// AtPages reports whether a request came to where pages for people are.
func (m *Mux) AtPages(r *http.Request) bool { return m.pagesHost == "" || m.namesPages(r.Host) }

// namesPages reports whether a Host header is the name that pages have of their own. How long
// it takes tells nothing of the name.
func (m *Mux) namesPages(host string) bool {
	return m.pagesHost != "" && subtle.ConstantTimeCompare([]byte(host), []byte(m.pagesHost)) == 1
}
