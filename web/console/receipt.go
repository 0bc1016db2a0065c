package console

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// receipt sends the signed receipt of a closed task, as 'ebb task receipt
// verify' reads it.
func (tp *taskPages) receipt(c echo.Context, v *visit) error {
	_, jws, err := tp.b.Receipt(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentDisposition, `attachment; filename="ebb-receipt.jws"`)
	return c.Blob(http.StatusOK, "application/jose", []byte(jws))
}
