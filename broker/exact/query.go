package exact

import (
	"net/url"
	"slices"
	"strings"
)

const (
	maxQuery      = 8 << 10
	maxParameters = 256
)

// methodKeys are parameters by which frameworks take a request for one of another method.
var methodKeys = []string{"_method", "x-http-method-override"}

// Query refuses queries that two servers can read differently, and returns the others
// by parameter: those with a semicolon, which separates for some, with bad escapes, with
// bytes that have to be escaped, with more parameters than everybody counts, or with one
// that names another method.
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
