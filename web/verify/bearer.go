package verify

import (
	"net/http"
	"strings"

	"github.com/ebb-broker/ebb/attest/jose"
)

// presented is the token in the request.
type presented struct {
	token string
	dpop  bool // scheme DPoP, else Bearer
}

// present reads the token from the Authorization header only: not from the
// query, which is logged (RFC 6750 section 2.3), and not from
// Proxy-Authorization (RFC 9449 section 7.1). Two headers are an error, because
// libraries disagree on which one counts (RFC 9449 section 7.2).
func present(r *http.Request) (presented, *Error) {
	if r.URL.RawQuery != "" && r.URL.Query().Has("access_token") {
		return presented{}, refuse(InvalidRequest, "Send the access token in the Authorization header, never in the URL.", nil)
	}
	values := r.Header["Authorization"]
	switch {
	case len(values) == 0:
		return presented{}, refuse("", "Send an access token.", nil)
	case len(values) > 1:
		return presented{}, refuse(InvalidRequest, "Send one Authorization header.", nil)
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	p := presented{token: strings.Trim(token, " "), dpop: strings.EqualFold(scheme, "DPoP")}
	switch {
	case !p.dpop && !strings.EqualFold(scheme, "Bearer"):
		return presented{}, refuse("", "Send an access token with the scheme DPoP.", nil)
	case !jose.IsToken68(p.token):
		return presented{}, refuse(InvalidRequest, "The Authorization header is not one scheme and one token.", nil)
	}
	return p, nil
}
