package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/ebb-broker/ebb/web/wire"
)

// Attestors lists the configured attestors by name.
func (o *Operator) Attestors(ctx context.Context) ([]wire.Attestor, error) {
	var out wire.List[wire.Attestor]
	err := o.do(ctx, http.MethodGet, "/v1/attestors", nil, nil, &out)
	return out.Items, err
}

// ExplainEvidence returns how an attestor evaluates a piece of evidence. It
// enrols no sandbox.
func (o *Operator) ExplainEvidence(ctx context.Context, attestor string, q wire.EvidenceQuery) (wire.EvidenceExplanation, error) {
	var out wire.EvidenceExplanation
	return out, o.do(ctx, http.MethodPost, "/v1/attestors/"+url.PathEscape(attestor)+"/explain", nil, q, &out)
}
