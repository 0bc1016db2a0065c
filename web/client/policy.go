package client

import (
	"context"
	"net/http"

	"github.com/ebb-broker/ebb/web/wire"
)

// PolicyService reads the policy set and evaluates queries.
type PolicyService struct{ *session }

// Explain returns the decision that policy would make for a query. It issues
// nothing.
func (s *PolicyService) Explain(ctx context.Context, q wire.PolicyQuery) (wire.Explanation, error) {
	in := wire.ExplainBody{Query: q}
	var out wire.Explanation
	return out, s.do(ctx, http.MethodPost, "/v1/policy/explain", nil, in, &out)
}

// Get returns the policy set in force.
func (s *PolicyService) Get(ctx context.Context) (wire.Policy, error) {
	var out wire.Policy
	return out, s.do(ctx, http.MethodGet, "/v1/policy", nil, nil, &out)
}
