package api

import (
	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/provider"
	"ebb/web"
)

type secretBody struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (a *API) secrets(c echo.Context, who broker.Principal, _ web.None) (page[broker.StoredSecret], error) {
	list, err := a.b.Secrets(c.Request().Context(), who)
	return paged(list, 0, func(s broker.StoredSecret) string { return s.Name }), err
}

func (a *API) putSecret(c echo.Context, who broker.Principal, body secretBody) (broker.StoredSecret, error) {
	return a.b.PutSecret(c.Request().Context(), who, body.Name, provider.NewSecret(body.Value))
}

func (a *API) removeSecret(c echo.Context, who broker.Principal, _ web.None) (broker.StoredSecret, error) {
	return a.b.RemoveSecret(c.Request().Context(), who, c.Param("name"))
}
