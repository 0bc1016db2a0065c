package echoverify

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/web/verify"
)

// key is the name of the verified token in an echo context.
const key = "ebb.token"

// Middleware is verify.Verifier.Middleware for echo. It answers a request
// without a valid token itself (RFC 6750 section 3, RFC 9449 section 7.1) and
// calls the next handler for every other request. It must see the path as the
// client sent it, so add it with Use and not behind a rewrite. TokenOf returns
// the token in a handler behind it.
func Middleware(v *verify.Verifier) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			v.Handler(func(_ http.ResponseWriter, _ *http.Request, t *verify.Token) {
				c.Set(key, t)
				err = next(c)
			}).ServeHTTP(c.Response(), c.Request())
			return err
		}
	}
}

// TokenOf returns the token that Middleware verified; nil in a handler that is not behind it.
func TokenOf(c echo.Context) *verify.Token {
	t, _ := c.Get(key).(*verify.Token)
	return t
}
