package api

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/provider"
	"ebb/web"
)

// Links makes links that sign a principal in to the console, once.
type Links interface {
	Make(ctx context.Context, who broker.Principal) (link provider.Secret, until time.Time, err error)
}

type signInLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (a *API) signInLink(c echo.Context, who broker.Principal, _ web.None) (signInLink, error) {
	if !who.Has(broker.RoleViewer, broker.RoleApprover, broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner) {
		return signInLink{}, broker.E(broker.Forbidden, "There is nothing in the console for a principal of your roles.", nil)
	}
	if a.cfg.Links == nil {
		return signInLink{}, broker.E(broker.NotFound, "This ebb makes no links: sign in to its console with the identity provider.", nil)
	}
	link, until, err := a.cfg.Links.Make(c.Request().Context(), who)
	return signInLink{URL: link.Reveal(), ExpiresAt: until}, err
}
