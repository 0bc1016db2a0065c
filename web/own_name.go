package web

import (
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// OwnName returns the base URL of the console for a server with the public URL public. On loopback
// it is a host name derived from key (32 bytes), which others cannot guess. Browsers send cookies
// to every port of a host, so with a known name any program on this machine could direct a browser
// to its own port and read them. Chromium and Firefox resolve *.localhost to loopback without DNS
// (RFC 6761 section 6.3). For other public URLs OwnName returns public.
func OwnName(public string, key []byte) (string, error) {
	u, err := CheckPublicURL(public)
	if err != nil {
		return "", err
	}
	if len(key) != 32 {
		return "", errors.New("the key for the console's host name must have 32 bytes")
	}
	switch host := u.Hostname(); {
	case u.Scheme != "http":
		return public, nil
	case host != "localhost" && host != "127.0.0.1" && host != "::1":
		return public, nil // browsers on other machines cannot use a .localhost name
	}
	u.Host = "ebb-" + strings.ToLower(base32.StdEncoding.EncodeToString(key)[:16]) + ".localhost:" + u.Port()
	u.Host = strings.TrimSuffix(strings.TrimSuffix(u.Host, ":80"), ":") // without the default port, as browsers send Host
	return u.String(), nil
}

// checkPagesURL parses the URL of pages. It must be the same server under another *.localhost name.
func checkPagesURL(raw string, public *url.URL) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || public.Scheme != "http" || u.Path != public.Path || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.String() != raw || strings.ToLower(u.Host) != u.Host || !strings.HasSuffix(u.Hostname(), ".localhost") {
		return nil, errors.New("the pages URL must be the public URL, or http on another *.localhost name with the same path")
	}
	return u, nil
}

// PagesURL returns the base URL of the console: the public URL, or on loopback its own host name.
func (m *Mux) PagesURL() string { return m.pagesURL }

// AtPages reports whether the request was sent to the host of the console.
func (m *Mux) AtPages(r *http.Request) bool { return m.pagesHost == "" || m.namesPages(r.Host) }

// namesPages reports whether host is the console's own host name. The comparison takes constant
// time, so that its duration does not reveal the name.
func (m *Mux) namesPages(host string) bool {
	return m.pagesHost != "" && subtle.ConstantTimeCompare([]byte(host), []byte(m.pagesHost)) == 1
}
