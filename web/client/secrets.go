package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/wire"
)

// Secrets lists the operator's secrets: names and times, never a value.
func (o *Operator) Secrets(ctx context.Context) (wire.List[wire.StoredSecret], error) {
	var out wire.List[wire.StoredSecret]
	return out, o.do(ctx, http.MethodGet, "/v1/secrets", nil, nil, &out)
}

// PutSecret stores a secret under a name and replaces an existing one.
func (o *Operator) PutSecret(ctx context.Context, name string, value secret.Secret) (wire.StoredSecret, error) {
	body := wire.SecretBody{Name: name, Value: value.Reveal()}
	var out wire.StoredSecret
	return out, o.do(ctx, http.MethodPost, "/v1/secrets", nil, body, &out)
}

// RemoveSecret deletes a secret.
func (o *Operator) RemoveSecret(ctx context.Context, name string) (wire.StoredSecret, error) {
	var out wire.StoredSecret
	return out, o.do(ctx, http.MethodPost, "/v1/secrets/"+url.PathEscape(name)+"/remove", nil, nil, &out)
}
