package api

import (
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/policyset"
	"ebb/scopes/policy"
	"ebb/web"
)

type policyAnswer struct {
	Version string           `json:"version"`
	Source  policyset.Source `json:"source"`
	Since   time.Time        `json:"since"`
	Release int64            `json:"release,omitempty"`
	Author  string           `json:"author,omitempty"`
	By      string           `json:"by,omitempty"`
	Files   []policyset.File `json:"files"`
}

type explainBody struct {
	Query policy.Query `json:"query"`
}

// policy shows what is in force to those who answer for it.
func (a *API) policy(_ echo.Context, who broker.Principal, _ web.None) (policyAnswer, error) {
	p, err := a.b.PolicyInForce(who)
	if err != nil {
		return policyAnswer{}, err
	}
	return policyAnswer{Version: p.Version, Source: p.Source, Since: p.Since, Release: p.Number, Author: p.Author, By: p.By, Files: p.Files}, nil
}

// explain says what policy would decide, and what each policy contributes.
func (a *API) explain(c echo.Context, who broker.Principal, body explainBody) (policy.Explanation, error) {
	return a.b.Explain(c.Request().Context(), who, body.Query)
}
