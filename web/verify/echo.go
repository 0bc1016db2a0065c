package verify

import "github.com/labstack/echo/v4"

const echoKey = "ebb.token"

// Echo is Middleware for echo. TokenOf finds the token in a handler behind it.
func (v *Verifier) Echo() echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			t, err := v.Verify(c.Request())
			if err != nil {
				v.WriteError(c.Response(), err)
				return nil
			}
			v.offerNonce(c.Response())
			c.Set(echoKey, t)
			return next(c)
		}
	}
}

// TokenOf returns the token that Echo verified; nil outside of it.
func TokenOf(c echo.Context) *Token {
	t, _ := c.Get(echoKey).(*Token)
	return t
}
