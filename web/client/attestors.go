package client

import (
	"context"
	"net/http"
	"net/url"

	"ebb/broker"
)

// Attestors lists the configured attestors by name.
func (o *Operator) Attestors(ctx context.Context) ([]broker.AttestorState, error) {
	var out struct {
		Items []broker.AttestorState `json:"items"`
	}
	err := o.do(ctx, http.MethodGet, "/v1/attestors", nil, nil, &out)
	return out.Items, err
}

// ExplainEvidence says how an attestor judges evidence. Nobody enrols by it.
func (o *Operator) ExplainEvidence(ctx context.Context, attestor string, q broker.EvidenceQuery) (broker.EvidenceExplanation, error) {
	var out broker.EvidenceExplanation
	return out, o.do(ctx, http.MethodPost, "/v1/attestors/"+url.PathEscape(attestor)+"/explain", nil, q, &out)
}
