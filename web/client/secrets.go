package client

import (
	"context"
	"net/http"
	"net/url"

	"ebb/broker"
	"ebb/broker/provider"
)

// Secrets lists the operator's secrets: names and times, never a value.
func (o *Operator) Secrets(ctx context.Context) (List[broker.StoredSecret], error) {
	var out List[broker.StoredSecret]
	return out, o.do(ctx, http.MethodGet, "/v1/secrets", nil, nil, &out)
}

// PutSecret keeps a secret under a name, in place of what was there.
func (o *Operator) PutSecret(ctx context.Context, name string, value provider.Secret) (broker.StoredSecret, error) {
	body := struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}{name, value.Reveal()}
	var out broker.StoredSecret
	return out, o.do(ctx, http.MethodPost, "/v1/secrets", nil, body, &out)
}

// RemoveSecret forgets one.
func (o *Operator) RemoveSecret(ctx context.Context, name string) (broker.StoredSecret, error) {
	var out broker.StoredSecret
	return out, o.do(ctx, http.MethodPost, "/v1/secrets/"+url.PathEscape(name)+"/remove", nil, nil, &out)
}
