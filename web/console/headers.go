package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
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

// guarded gives a handler the headers of a page, and draws its errors. Asked by a name
// that is not this console's, it does nothing else: no cookie is read or set there. It does
// not lead to the right name either, which is for people alone: programs ask here, too.
func (s *Console) guarded(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		headers(c.Response().Header())
		if !s.mux.AtPages(c.Request()) {
			return s.fail(c, broker.E(web.Misdirected, "The console has a host name of its own on this machine. `ebb console` prints a link to it; you can keep that page as a bookmark.", nil))
		}
		if err := h(c); err != nil {
			return s.fail(c, err)
		}
		return nil
	}
}
