package api

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// Links makes links that sign a principal in to the console, once.
type Links interface {
	Make(ctx context.Context, who broker.Principal) (link secret.Secret, until time.Time, err error)
}

func (d *discovery) signInLink(c echo.Context, who broker.Principal, _ web.None) (wire.SignInLink, error) {
	if !who.Has(broker.RoleViewer, broker.RoleApprover, broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner) {
		return wire.SignInLink{}, broker.E(broker.Forbidden, "Your roles have no access to the console.", nil)
	}
	if d.links == nil {
		return wire.SignInLink{}, broker.E(broker.NotFound, "This ebb does not make sign-in links. Sign in to its console with the identity provider.", nil)
	}
	link, until, err := d.links.Make(c.Request().Context(), who)
	return wire.SignInLink{URL: link.Reveal(), ExpiresAt: until}, err
}
