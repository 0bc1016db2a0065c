package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// own serves POST /oauth2/credentials: a sandbox lists the credentials of its
// task.
func (a *API) own(c echo.Context) error {
	f, err := readForm(c.Request(), a.mux.BodyLimit())
	if err != nil {
		return err
	}
	s, p, err := a.sandbox(c, f)
	if err != nil {
		return err
	}
	ls, err := a.b.OwnLeases(c.Request().Context(), s, p)
	if err != nil {
		return err
	}
	if len(ls) > 0 {
		web.EventOf(c).TaskID = ls[0].TaskID
	}
	out := wire.List[wire.OwnCredential]{Items: make([]wire.OwnCredential, len(ls))}
	for i, l := range ls {
		out.Items[i] = wireOwnCredential(l)
	}
	web.NoStore(c.Response().Header())
	return web.WriteJSON(c, http.StatusOK, out)
}
