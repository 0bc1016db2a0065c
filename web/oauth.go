package web

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/wire"
)

// writeOAuthError sends err as an error of /oauth2 (RFC 6749 section 5.2). The
// media type is never problem+json, because client libraries would then not
// read the error code. It is the only place that sends a deferral code.
func writeOAuthError(c echo.Context, err error) error {
	e := broker.AsError(err)
	EventOf(c).fail(e)
	if c.Response().Committed {
		return nil
	}
	line := Lookup(e.Kind)
	out := wire.OAuthError{Error: line.OAuth, Description: Description(e.Public), Advice: advice(e.Advice)}
	wait, next := retry(e, line.OAuthStatus)
	out.Next = next
	if p := e.Pending; p != nil {
		out.DeferralCode = p.DeferralCode.Reveal()
		out.ExpiresIn, out.Interval = int64(p.ExpiresIn.Seconds()), int64(p.Interval.Seconds())
		out.RequestID, EventOf(c).RequestID = p.RequestID, p.RequestID
		out.Groups = p.Groups
		if p.RequestID != "" {
			out.MatchCode = broker.MatchCode(p.RequestID)
		}
	}
	h := c.Response().Header()
	if wait > 0 {
		h.Set("Retry-After", strconv.FormatInt(wait, 10))
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

// Description replaces the characters that error_description must not contain
// (RFC 6749 section 5.2: only %x20-21 / %x23-5B / %x5D-7E are allowed).
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
