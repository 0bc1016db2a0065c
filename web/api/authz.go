package api

import (
	"strings"

	"github.com/labstack/echo/v4"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/web"
)

// Schemes of the Authorization header that mean something here.
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

// isToken68 is the b64token of RFC 6750 section 2.1.
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

// challenge says how to authenticate at /v1 (RFC 9449 section 7.1, RFC 9728
// section 5.1). e is nil when no credentials were sent: then there is no error.
func (a *API) challenge(c echo.Context, e *broker.Error) {
	var s strings.Builder
	s.WriteString(schemeDPoP + ` realm="ebb"`)
	if e != nil {
		s.WriteString(`, error="` + web.Lookup(e.Kind).OAuth + `", error_description="` + web.Description(e.Public) + `"`)
	}
	s.WriteString(`, algs="` + joinAlgs(a.b.DPoPAlgs()) + `", resource_metadata="` + a.resourceMetadataURL() + `"`)
	c.Response().Header().Set(echo.HeaderWWWAuthenticate, s.String())
}

func joinAlgs(algs []jose.Alg) string {
	names := make([]string, len(algs))
	for i, alg := range algs {
		names[i] = string(alg)
	}
	return strings.Join(names, " ")
}

// unauthenticated is the answer at /v1 to a request without credentials.
func unauthenticated() *broker.Error {
	return broker.E(broker.Unauthenticated, "Send an access token for this API: Authorization: DPoP, with a DPoP proof.", nil)
}
