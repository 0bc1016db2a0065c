package api

import (
	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

type attestorsPage struct {
	Items []broker.AttestorState `json:"items"`
}

// attestors lists the configured attestors.
func (a *API) attestors(c echo.Context, who broker.Principal, _ web.None) (attestorsPage, error) {
	items, err := a.b.Attestors(c.Request().Context(), who)
	return attestorsPage{Items: items}, err
}

// explainEvidence says how one attestor judges evidence.
func (a *API) explainEvidence(c echo.Context, who broker.Principal, q broker.EvidenceQuery) (broker.EvidenceExplanation, error) {
	return a.b.ExplainEvidence(c.Request().Context(), who, c.Param("name"), q)
}
