package web

import (
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Handle returns a handler for one call. enter authenticates the caller before the body is read.
// Req is decoded strictly (None for no body). Resp is encoded as JSON with the status, or omitted
// for 204. Mux turns an error into a problem document.
func Handle[Who, Req, Resp any](m *Mux, status int, enter func(echo.Context) (Who, error), call func(echo.Context, Who, Req) (Resp, error)) echo.HandlerFunc {
	limit := m.limits.Body
	return func(c echo.Context) error {
		who, err := enter(c)
		if err != nil {
			return err
		}
		req, err := Decode[Req](c.Request(), limit)
		if err != nil {
			return err
		}
		resp, err := call(c, who, req)
		if err != nil {
			return err
		}
		if status == http.StatusNoContent {
			return c.NoContent(status)
		}
		return WriteJSON(c, status, resp)
	}
}

// WriteJSON sends v as JSON with Cache-Control: no-store. It encodes before it
// writes, so that a value that cannot be encoded gives a clean 500.
func WriteJSON(c echo.Context, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Blob(status, echo.MIMEApplicationJSON, body)
}
