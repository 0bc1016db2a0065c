package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"ebb/broker/exact"
)

// toPath begins the base URLs of hosts: a tool that takes a URL for its API, and no proxy
// or CA, is given http://<where the socket is reached>/to/<host>[:port].
const toPath = "/to/"

// ownName reports whether Host can be where a way out is reached: an address, or a name of one label or
// below localhost. A page in a browser that has a name of its own rebound to loopback says another.
func ownName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return !strings.Contains(host, ".") || strings.HasSuffix(strings.ToLower(host), ".localhost")
}

// fromElsewhere reports whether a browser says of a request that a page asks for it which does not come
// from the host that the request itself names (Fetch Metadata; RFC 6454 section 7). No page can set
// these. A browser leaves them out where it asks a name that is not loopback's for what a page shows, as
// for a picture, whose answer no page reads; a tool that is none sends neither.
func fromElsewhere(host string, h http.Header) bool {
	for _, site := range h.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" { // a site is a host with all its ports, and not the way out
			return true
		}
	}
	for _, origin := range h.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, host) { // "null" has no host
			return true
		}
	}
	return false
}

// originForm is the path and query of a request. A client that sends requests for the endpoint itself through
// the proxy names the whole URL (absolute-form, RFC 9112 section 3.2.2).
func originForm(r *http.Request) string {
	if path, is := strings.CutPrefix(r.RequestURI, "http://"+r.Host); is && strings.HasPrefix(path, "/") && ownName(r.Host) {
		return path
	}
	return r.RequestURI
}

// to sends a request to the host that its path begins with, by https and under the rules
// of a tunnel to that host. What Host says is where the socket is reached, and nothing else.
func (b *box) to(w http.ResponseWriter, r *http.Request, uri string) {
	name, path, below := strings.Cut(strings.TrimPrefix(uri, toPath), "/")
	h, err := exact.ParseHost(name, 443)
	if err != nil {
		b.refuse(w, r, err)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), tunnelKey{}, &tunnel{host: h}))
	u, err := url.ParseRequestURI("/" + path)
	if err != nil || !below {
		b.refuse(w, r, deny(exact.AmbiguousPath, nil))
		return
	}
	r.RequestURI, r.URL, r.Host = "/"+path, u, h.String()
	b.request(w, r)
}
