package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/wire"
)

// SecretsService manages the operator's stored secrets.
type SecretsService struct{ *session }

// List lists the operator's secrets: names and times, never a value.
func (s *SecretsService) List(ctx context.Context) (wire.List[wire.StoredSecret], error) {
	var out wire.List[wire.StoredSecret]
	return out, s.do(ctx, http.MethodGet, "/v1/secrets", nil, nil, &out)
}

// Put stores a secret under a name and replaces an existing one.
func (s *SecretsService) Put(ctx context.Context, name string, value secret.Secret) (wire.StoredSecret, error) {
	body := wire.SecretBody{Name: name, Value: value.Reveal()}
	var out wire.StoredSecret
	return out, s.do(ctx, http.MethodPost, "/v1/secrets", nil, body, &out)
}

// Remove deletes a secret.
func (s *SecretsService) Remove(ctx context.Context, name string) (wire.StoredSecret, error) {
	var out wire.StoredSecret
	return out, s.do(ctx, http.MethodPost, "/v1/secrets/"+url.PathEscape(name)+"/remove", nil, nil, &out)
}
