package api

import (
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
	"github.com/labstack/echo/v4"
)

// adminAPI serves /v1 for policies, secrets and attestors.
type adminAPI struct {
	b *core.Broker
}

// attestors lists the configured attestors.
func (ad *adminAPI) attestors(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.Attestor], error) {
	items, err := ad.b.Attestors(c.Request().Context(), who)
	return wire.List[wire.Attestor]{Items: each(items, wireAttestor)}, err
}

// explainEvidence returns how one attestor evaluates a piece of evidence.
func (ad *adminAPI) explainEvidence(c echo.Context, who broker.Principal, q wire.EvidenceQuery) (wire.EvidenceExplanation, error) {
	out, err := ad.b.ExplainEvidence(c.Request().Context(), who, c.Param("name"), brokerEvidenceQuery(q))
	return wireEvidenceExplanation(out), err
}
