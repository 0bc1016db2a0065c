package stricturl

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// httpsPort is the port of a host without a port (RFC 9110 section 4.2.2).
const httpsPort = 443

// Origin returns the host and port of an https request. It refuses a request whose URL and Host
// header differ, or whose URL has user information.
func Origin(r *http.Request) (Host, error) {
	u := r.URL
	switch {
	case u == nil || u.Opaque != "" || u.Scheme != "https":
		return Host{}, refuse(BadHost, "it is not https")
	case u.User != nil:
		return Host{}, refuse(BadHost, "its URL holds a login")
	case r.Host != "" && r.Host != u.Host:
		return Host{}, refuse(BadHost, "it names one host and goes to another")
	}
	return ParseHost(u.Host, httpsPort)
}

// Target returns the path segments of a request. It refuses headers, queries and paths that
// servers can read differently.
func Target(r *http.Request, form PathForm) ([]string, error) {
	if err := Header(r.Header); err != nil {
		return nil, err
	}
	if _, err := Query(r.URL.RawQuery); err != nil {
		return nil, err
	}
	return Path(r.URL.EscapedPath(), form)
}

// CheckHost reports whether text is a valid host in a configuration: "api.example.com", in lower
// case, optionally with a port.
func CheckHost(text string) bool {
	h, err := ParseHost(text, httpsPort)
	return err == nil && (text == h.String() || text == h.Name && h.Port == httpsPort)
}

// Reason names the cause of a refusal: one word of a fixed set, for metric labels and for the
// response to a sandbox.
type Reason string

// Reasons.
const (
	BadHost        Reason = "bad_host"        // not a DNS name in its one spelling
	IPLiteral      Reason = "ip_literal"      // an address where a name belongs
	BadPort        Reason = "bad_port"        //
	AmbiguousPath  Reason = "ambiguous_path"  //
	AmbiguousQuery Reason = "ambiguous_query" //
	BadMethod      Reason = "bad_method"      //
	BadHeader      Reason = "bad_header"      // some servers would read another request
)

// Error is a refusal. Neither member contains any part of the request.
type Error struct {
	Reason Reason
	Why    string // half a sentence: "its path ..."
}

// Error implements error.
func (e *Error) Error() string { return e.Why }

func refuse(r Reason, why string) error { return &Error{Reason: r, Why: why} }

// Method returns an error unless m is 1 to 16 capital letters. It also refuses TRACE and TRACK,
// which return the request with its credential, and CONNECT and PRI.
func Method(m string) error {
	if m == "" || len(m) > 16 || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || slices.Contains([]string{"TRACE", "TRACK", "CONNECT", "PRI"}, m) {
		return refuse(BadMethod, "its method is none that goes further")
	}
	return nil
}

// Fold returns the name of a header in lower case, with underscores as hyphens: CGI servers do not
// distinguish the two (RFC 3875 section 4.1.18).
func Fold(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// overrides are headers that make some servers use another method, path or host than those of the
// request. All headers that begin with X-Upstream- count as well.
var overrides = []string{
	"x-http-method", "x-http-method-override", "x-method-override",
	"x-original-url", "x-rewrite-url", "x-original-uri", "x-original-path", "x-original-host", "x-envoy-original-path",
	"x-forwarded-host", "x-forwarded-path", "x-forwarded-prefix", "x-forwarded-uri", "x-host", "x-accel-redirect", "x-http-host-override", "x-proxy-url",
}

// Overrides reports whether a header of this name makes some servers read another request.
func Overrides(name string) bool {
	name = Fold(name)
	return slices.Contains(overrides, name) || strings.HasPrefix(name, "x-upstream-")
}

// Header returns an error if one of the headers Overrides.
func Header(h http.Header) error {
	for k := range h {
		if Overrides(k) {
			return refuse(BadHeader, "a header asks servers to take it for another request")
		}
	}
	return nil
}

const (
	maxQuery      = 8 << 10
	maxParameters = 256
)

// methodKeys are query parameters from which frameworks take another method.
var methodKeys = []string{"_method", "x-http-method-override"}

// Query returns the parameters of a query. It refuses queries that two servers can read
// differently: with a semicolon, which some servers take for a separator; with bad escapes; with
// bytes that must be escaped; with more than maxParameters parameters; or with a parameter that
// names another method.
func Query(raw string) (url.Values, error) {
	if len(raw) > maxQuery || strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }) {
		return nil, refuse(AmbiguousQuery, "its query is too long, or holds what must be encoded")
	}
	if strings.Count(raw, "&") >= maxParameters {
		return nil, refuse(AmbiguousQuery, "its query has too many parameters")
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, refuse(AmbiguousQuery, "its query is not well formed")
	}
	for k := range values {
		if slices.Contains(methodKeys, strings.ToLower(k)) {
			return nil, refuse(AmbiguousQuery, "its query asks servers to take it for another request")
		}
	}
	return values, nil
}
