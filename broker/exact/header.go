package exact

import (
	"net/http"
	"slices"
	"strings"
)

// Method refuses what is not 1 to 16 capital letters, and the methods that show a
// request to who sent it, or that are no request: TRACE, TRACK, CONNECT, PRI.
func Method(m string) error {
	if m == "" || len(m) > 16 || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || slices.Contains([]string{"TRACE", "TRACK", "CONNECT", "PRI"}, m) {
		return refuse(BadMethod, "its method is none that goes further")
	}
	return nil
}

// Fold is a header's name as servers read it that know CGI: there, hyphen and underscore
// are one (RFC 3875 section 4.1.18).
func Fold(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// overrides are headers that make some servers take a request for another one: of
// another method, for another path or host. So are all that begin with X-Upstream-.
var overrides = []string{
	"x-http-method", "x-http-method-override", "x-method-override",
	"x-original-url", "x-rewrite-url", "x-original-uri", "x-original-path", "x-original-host", "x-envoy-original-path",
	"x-forwarded-host", "x-forwarded-path", "x-forwarded-prefix", "x-forwarded-uri", "x-host", "x-accel-redirect", "x-http-host-override", "x-proxy-url",
}

// Overrides reports whether a header of this name does that.
func Overrides(name string) bool {
	name = Fold(name)
	return slices.Contains(overrides, name) || strings.HasPrefix(name, "x-upstream-")
}

// Header refuses headers among which is one that Overrides.
func Header(h http.Header) error {
	for k := range h {
		if Overrides(k) {
			return refuse(BadHeader, "a header asks servers to take it for another request")
		}
	}
	return nil
}
