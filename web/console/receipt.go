package console

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// receipt is the signed receipt of a task that is over, as `ebb task receipt verify`
// takes it.
func (s *Console) receipt(c echo.Context, v *visit) error {
	_, jws, err := s.b.Receipt(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentDisposition, `attachment; filename="ebb-receipt.jws"`)
	return c.Blob(http.StatusOK, "application/jose", []byte(jws))
}
