package api

import (
	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/scopes/policy"
	"ebb/web"
)

// PolicyFile is one policy file in force.
type PolicyFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

type policyAnswer struct {
	Version string       `json:"version"`
	Files   []PolicyFile `json:"files"`
}

type explainBody struct {
	Query policy.Query `json:"query"`
}

// policy shows what is in force to those who answer for it.
func (a *API) policy(_ echo.Context, who broker.Principal, _ web.None) (policyAnswer, error) {
	if !who.Has(broker.RoleOperator, broker.RoleAuditor, broker.RoleApprover) {
		return policyAnswer{}, broker.E(broker.Forbidden, "Your principal has none of the roles this needs. Ask the operator.", nil)
	}
	if err := who.Certain(); err != nil {
		return policyAnswer{}, err
	}
	out := policyAnswer{Version: a.b.PolicyVersion(), Files: []PolicyFile{}}
	if a.cfg.Policies != nil {
		out.Files = append(out.Files, a.cfg.Policies()...)
	}
	return out, nil
}

// explain says what policy would decide, and what each policy contributes.
func (a *API) explain(c echo.Context, who broker.Principal, body explainBody) (policy.Explanation, error) {
	return a.b.Explain(c.Request().Context(), who, body.Query)
}
