package egress

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// toPath is the prefix of base URLs. A tool that can be given a URL for its API, but no proxy and
// no CA, uses http://<address of the endpoint>/to/<host>[:port].
const toPath = "/to/"

// ownName reports whether host can be the address of an egress endpoint: an IP address, a name of
// one label, or a name below localhost. A web page whose own name was rebound to loopback (DNS
// rebinding) sends another Host.
func ownName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return !strings.Contains(host, ".") || strings.HasSuffix(strings.ToLower(host), ".localhost")
}

// fromElsewhere reports whether a browser sent the request for a page of another origin than host
// (Fetch Metadata; RFC 6454 section 7). Pages cannot set these headers. A browser omits both
// headers when it loads, for example, an image from a host that is not loopback, but no page can
// read such an image. Tools that are not browsers send neither header.
func fromElsewhere(host string, h http.Header) bool {
	for _, site := range h.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" { // same-site is not enough: a site includes all ports of a host
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

// serveBaseURL forwards a request over https to the host at the beginning of its path, under the
// rules of a tunnel to that host. The Host header is the address of the endpoint and does not
// select the upstream.
func (b *endpoint) serveBaseURL(w http.ResponseWriter, r *http.Request, uri string) {
	name, path, below := strings.Cut(strings.TrimPrefix(uri, toPath), "/")
	h, err := stricturl.ParseHost(name, 443)
	if err != nil {
		b.refuse(w, r, err)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), tunnelKey{}, &tunnel{host: h}))
	u, err := url.ParseRequestURI("/" + path)
	if err != nil || !below {
		b.refuse(w, r, deny(stricturl.AmbiguousPath, nil))
		return
	}
	r.RequestURI, r.URL, r.Host = "/"+path, u, h.String()
	b.request(w, r)
}

// infoPath is the path at which a sandbox reads the description of its endpoint.
const infoPath = "/sandbox"

// bootstrap is the description of an endpoint for a helper in the sandbox. It holds no value that
// is of use outside the sandbox.
type bootstrap struct {
	TaskID      string       `json:"task_id"`
	Tool        string       `json:"tool,omitempty"`
	ExpiresAt   time.Time    `json:"expires_at"`
	CA          string       `json:"ca"`
	Credentials []credential `json:"credentials"`
}

// credential describes one lease that the sandbox can use by its placeholder.
type credential struct {
	Placeholder string    `json:"placeholder"`
	Provider    string    `json:"provider"`
	Scopes      []string  `json:"scopes"`
	ExpiresAt   time.Time `json:"expires_at"`
	// Endpoint is where the placeholder is the password of a session; absent = the placeholder is
	// for HTTP requests.
	Endpoint *provider.Endpoint `json:"endpoint,omitempty"`
}

// serveInfo answers infoPath with the bootstrap.
func (b *endpoint) serveInfo(w http.ResponseWriter, r *http.Request) {
	if !b.workLimits.info.Allow() {
		b.refuse(w, r, deny(TooOften, nil))
		return
	}
	leases, err := b.p.cfg.Leases.Injectable(r.Context(), b.who)
	if err != nil {
		b.refuse(w, r, err)
		return
	}
	out := bootstrap{TaskID: b.who.TaskID, Tool: b.who.Tool, ExpiresAt: b.ca.notAfter.UTC(), CA: string(b.ca.PEM()), Credentials: []credential{}}
	for _, l := range leases {
		c := credential{Placeholder: Prefix + l.ID, Provider: l.Provider, ExpiresAt: l.ExpiresAt}
		if at, is := b.p.cfg.Leases.Endpoint(l); is {
			c.Endpoint = &at
		}
		for _, s := range l.Scopes.Scopes() {
			c.Scopes = append(c.Scopes, s.String())
		}
		out.Credentials = append(out.Credentials, c)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(out)
}
