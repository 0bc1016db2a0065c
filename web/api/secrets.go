package api

import (
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provideradmin"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
	"github.com/labstack/echo/v4"
)

func (ad *adminAPI) secrets(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.StoredSecret], error) {
	list, err := ad.b.Secrets(c.Request().Context(), who)
	return paged(list, 0, func(s provideradmin.StoredSecret) string { return s.Name }, wireSecret), err
}

func (ad *adminAPI) putSecret(c echo.Context, who broker.Principal, body wire.SecretBody) (wire.StoredSecret, error) {
	s, err := ad.b.PutSecret(c.Request().Context(), who, body.Name, provider.NewSecret(body.Value))
	return wireSecret(s), err
}

func (ad *adminAPI) removeSecret(c echo.Context, who broker.Principal, _ web.None) (wire.StoredSecret, error) {
	s, err := ad.b.RemoveSecret(c.Request().Context(), who, c.Param("name"))
	return wireSecret(s), err
}
