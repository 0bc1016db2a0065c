package console

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

// contentPolicy is the same on every page. Nothing is inline, so it needs no
// nonce. Scripts cannot turn text into HTML (Trusted Types).
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// headers sets the headers of every page.
func headers(h http.Header) {
	for name, value := range map[string]string{
		"Content-Security-Policy":    contentPolicy,
		"Referrer-Policy":            "same-origin", // "no-referrer" would send Origin: null with our own forms
		"Cross-Origin-Opener-Policy": "same-origin",
		"Permissions-Policy":         "publickey-credentials-get=(self), publickey-credentials-create=(self), camera=(), geolocation=(), microphone=()",
		"Cache-Control":              "no-store",
	} {
		h.Set(name, value)
	}
}

// guarded sets the headers of a page and shows errors as pages. For a host name
// that is not the console's it only answers with an error, and neither reads
// nor sets cookies. It does not redirect to the right name, because programs
// also call this name.
func (pg *pages) guarded(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		headers(c.Response().Header())
		if !pg.mux.AtPages(c.Request()) {
			return pg.fail(c, broker.E(web.Misdirected, "The console has its own host name on this machine. 'ebb console' prints a link to it, which you can bookmark.", nil))
		}
		if err := h(c); err != nil {
			return pg.fail(c, err)
		}
		return nil
	}
}
