package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/ebb-broker/ebb/web/wire"
)

// AttestorsService reads the configured attestors.
type AttestorsService struct{ *session }

// List lists the configured attestors by name.
func (s *AttestorsService) List(ctx context.Context) ([]wire.Attestor, error) {
	var out wire.List[wire.Attestor]
	err := s.do(ctx, http.MethodGet, "/v1/attestors", nil, nil, &out)
	return out.Items, err
}

// Explain returns how an attestor evaluates a piece of evidence. It
// enrols no sandbox.
func (s *AttestorsService) Explain(ctx context.Context, attestor string, q wire.EvidenceQuery) (wire.EvidenceExplanation, error) {
	var out wire.EvidenceExplanation
	return out, s.do(ctx, http.MethodPost, "/v1/attestors/"+url.PathEscape(attestor)+"/explain", nil, q, &out)
}
