package api

import (
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

// Schemes of the Authorization header that ebb supports.
const (
	schemeDPoP   = "DPoP"
	schemeBearer = "Bearer"
	schemeBasic  = "Basic"
)

// authorization is one parsed Authorization header.
type authorization struct {
	scheme string // one of the constants, "other", or "" when none was sent
	token  string
}

// parseAuthorization reads the values of the Authorization header. Two headers,
// or two credentials in one, are an error: libraries disagree on which one
// counts (RFC 9449 section 7.2).
func parseAuthorization(values []string) (authorization, error) {
	switch len(values) {
	case 0:
		return authorization{}, nil
	case 1:
	default:
		return authorization{}, malformed("Send one Authorization header.")
	}
	scheme, rest, _ := strings.Cut(values[0], " ")
	token := strings.Trim(rest, " ")
	auth := authorization{scheme: "other", token: token}
	for _, s := range []string{schemeDPoP, schemeBearer, schemeBasic} {
		if strings.EqualFold(scheme, s) { // RFC 9110 section 11.1
			auth.scheme = s
		}
	}
	if auth.scheme != "other" && !isToken68(token) {
		return authorization{}, malformed("The Authorization header is not one scheme and one token.")
	}
	return auth, nil
}

// isToken68 reports whether s is a b64token (RFC 6750 section 2.1).
func isToken68(s string) bool {
	body := strings.TrimRight(s, "=")
	if body == "" {
		return false
	}
	for i := 0; i < len(body); i++ {
		c := body[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("-._~+/", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// challenge sets the WWW-Authenticate header of /v1 (RFC 9449 section 7.1, RFC
// 9728 section 5.1). e is nil when the request had no credentials: the header
// then names no error.
func (ca *clientAuth) challenge(c echo.Context, e *broker.Error) {
	var s strings.Builder
	s.WriteString(schemeDPoP + ` realm="ebb"`)
	if e != nil {
		s.WriteString(`, error="` + web.Lookup(e.Kind).OAuth + `", error_description="` + web.Description(e.Public) + `"`)
	}
	s.WriteString(`, algs="` + joinAlgs(ca.b.DPoPAlgs()) + `", resource_metadata="` + ca.discovery.resourceMetadataURL() + `"`)
	c.Response().Header().Set(echo.HeaderWWWAuthenticate, s.String())
}

func joinAlgs(algs []jose.Alg) string {
	names := make([]string, len(algs))
	for i, alg := range algs {
		names[i] = string(alg)
	}
	return strings.Join(names, " ")
}

// unauthenticated is the error at /v1 for a request without credentials.
func unauthenticated() *broker.Error {
	return broker.E(broker.Unauthenticated, "Send an access token for this API: Authorization: DPoP, with a DPoP proof.", nil)
}
