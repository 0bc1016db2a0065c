package client

import (
	"context"
	"net/http"
	"net/url"

	"ebb/broker/provider"
)

// SignInLink is a link that signs this principal in to the console, once, within two
// minutes. Only an ebb on loopback makes one.
func (o *Operator) SignInLink(ctx context.Context) (provider.Secret, error) {
	var ans struct {
		URL string `json:"url"`
	}
	if err := o.do(ctx, http.MethodPost, "/v1/signin-link", nil, nil, &ans); err != nil {
		return provider.Secret{}, err
	}
	if u, err := url.Parse(ans.URL); err != nil || u.Host == "" || !word(ans.URL) {
		return provider.Secret{}, badAnswer("holds no link", err)
	}
	return provider.NewSecret(ans.URL), nil
}
