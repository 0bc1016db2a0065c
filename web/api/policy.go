package api

import (
	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// policy returns the policies in force.
func (ad *adminAPI) policy(_ echo.Context, who broker.Principal, _ web.None) (wire.Policy, error) {
	p, err := ad.b.PolicyInForce(who)
	if err != nil {
		return wire.Policy{}, err
	}
	return wirePolicy(p), nil
}

// explain returns the decision that policy would make, and the contribution of
// each policy.
func (ad *adminAPI) explain(c echo.Context, who broker.Principal, body wire.ExplainBody) (wire.Explanation, error) {
	q, err := policyQuery(body.Query)
	if err != nil {
		return wire.Explanation{}, err
	}
	out, err := ad.b.Explain(c.Request().Context(), who, q)
	return wireExplanation(out), err
}
