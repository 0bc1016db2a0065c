package console

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// contentPolicy is the same on every page. Nothing is inline, so it needs no nonce; no script
// may make HTML of text (Trusted Types).
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// headers sets what every page has.
func headers(h http.Header) {
	for name, value := range map[string]string{
		"Content-Security-Policy":    contentPolicy,
		"Referrer-Policy":            "same-origin", // Origin must be sent with our own forms
		"Cross-Origin-Opener-Policy": "same-origin",
		"Permissions-Policy":         "publickey-credentials-get=(self), publickey-credentials-create=(self), camera=(), geolocation=(), microphone=()",
		"Cache-Control":              "no-store",
	} {
		h.Set(name, value)
	}
}

// guarded gives a handler the headers of a page, and draws its errors.
func (s *Console) guarded(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		headers(c.Response().Header())
		if err := h(c); err != nil {
			return s.fail(c, err)
		}
		return nil
	}
}
