package web

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"ebb/broker"
)

// OAuthError is an RFC 6749 section 5.2 error answer. It is never problem+json:
// client libraries then see no error code at all.
type OAuthError struct {
	Error        string         `json:"error"`
	Description  string         `json:"error_description,omitempty"`
	DeferralCode string         `json:"deferral_code,omitempty"` // with authorization_pending
	RequestID    string         `json:"request_id,omitempty"`    // the same, for people; it opens nothing
	ExpiresIn    int64          `json:"expires_in,omitempty"`    // seconds, of the deferral code
	Interval     int64          `json:"interval,omitempty"`      // seconds between polls
	Advice       *broker.Advice `json:"advice,omitempty"`        // with access_denied and whatever else is no answer of a person
}

// writeOAuthError answers at /oauth2 with err, whatever err is. It is the only
// place that sends a deferral code.
func writeOAuthError(c echo.Context, err error) error {
	e := broker.AsError(err)
	EventOf(c).fail(e)
	if c.Response().Committed {
		return nil
	}
	line := Lookup(e.Kind)
	out := OAuthError{Error: line.OAuth, Description: Description(e.Public), Advice: e.Advice}
	if p := e.Pending; p != nil {
		out.DeferralCode = p.DeferralCode.Reveal()
		out.ExpiresIn, out.Interval = int64(p.ExpiresIn.Seconds()), int64(p.Interval.Seconds())
		out.RequestID, EventOf(c).RequestID = p.RequestID, p.RequestID
	}
	h := c.Response().Header()
	if s := retryAfter(e, line.OAuthStatus); s > 0 {
		h.Set("Retry-After", strconv.FormatInt(s, 10))
	}
	NoStore(h)
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return c.Blob(line.OAuthStatus, echo.MIMEApplicationJSON, body)
}

// NoStore sets the two headers of RFC 6749 section 5.1.
func NoStore(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Pragma", "no-cache")
}

// Description keeps the characters that error_description may have (RFC 6749
// section 5.2: %x20-21 / %x23-5B / %x5D-7E) and replaces the others.
func Description(s string) string {
	fits := func(b byte) bool { return b >= 0x20 && b <= 0x7e && b != '"' && b != '\\' }
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		clean = fits(s[i])
	}
	if clean {
		return s
	}
	out := make([]byte, 0, len(s))
	for _, r := range s {
		switch {
		case r < 0x80 && fits(byte(r)):
			out = append(out, byte(r))
		case r == '"':
			out = append(out, '\'')
		default:
			out = append(out, '?')
		}
	}
	return string(out)
}
