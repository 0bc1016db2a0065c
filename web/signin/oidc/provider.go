package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
)

// algs are the accepted signature algorithms. All are asymmetric, so that
// published keys cannot sign.
var algs = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}

// source is the provider's metadata (OpenID Connect Discovery 1.0) with the
// clients made from it.
type source struct {
	*oidc.Provider
	oauth    oauth2.Config
	verifier func(oidc.KeySet) *oidc.IDTokenVerifier
	keys     *jose.KeyCache
	saysIss  bool // RFC 9207: the authorization response contains iss
}

func (o *OIDC) read(ctx context.Context) (*source, time.Duration, error) {
	ctx = oidc.ClientContext(ctx, o.client)
	p, err := oidc.NewProvider(ctx, o.cfg.Issuer)
	if err != nil {
		return nil, 0, err
	}
	var says struct {
		Algs    []string `json:"id_token_signing_alg_values_supported"`
		Auth    []string `json:"token_endpoint_auth_methods_supported"`
		Keys    string   `json:"jwks_uri"`
		SaysIss bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := p.Claims(&says); err != nil {
		return nil, 0, err
	}
	s := &source{Provider: p, saysIss: says.SaysIss}
	says.Algs = slices.DeleteFunc(says.Algs, func(a string) bool { return !slices.Contains(algs, a) })
	if len(says.Algs) == 0 {
		return nil, 0, errors.New("id_token_signing_alg_values_supported contains no algorithm that ebb accepts")
	}
	endpoint := p.Endpoint()
	for what, text := range map[string]string{"authorization_endpoint": endpoint.AuthURL, "token_endpoint": endpoint.TokenURL, "jwks_uri": says.Keys} {
		u, err := url.Parse(text)
		here, _ := url.Parse(o.cfg.Issuer)
		if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != here.Scheme || u.Host != here.Host) {
			return nil, 0, fmt.Errorf("the provider's %s is not an https URL", what)
		}
	}
	switch {
	case len(says.Auth) == 0 || slices.Contains(says.Auth, "client_secret_basic"): // the default of Discovery section 3
		endpoint.AuthStyle = oauth2.AuthStyleInHeader
	case slices.Contains(says.Auth, "client_secret_post"):
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	default:
		return nil, 0, errors.New("the provider accepts no client secret: token_endpoint_auth_methods_supported has neither client_secret_basic nor client_secret_post")
	}
	s.oauth = oauth2.Config{ClientID: o.cfg.ClientID, ClientSecret: o.cfg.ClientSecret.Reveal(), Endpoint: endpoint, RedirectURL: o.cfg.Base + "/signin/" + o.Name() + "/callback", Scopes: o.cfg.Scopes}
	if s.keys, err = jose.NewKeyCache(jose.CacheConfig{URL: says.Keys, Fetch: o.cfg.Fetch, Now: o.cfg.Now, Logger: o.cfg.Logger}); err != nil {
		return nil, 0, err
	}
	s.verifier = func(keys oidc.KeySet) *oidc.IDTokenVerifier {
		return oidc.NewVerifier(o.cfg.Issuer, keys, &oidc.Config{ClientID: o.cfg.ClientID, SupportedSigningAlgs: says.Algs, Now: o.cfg.Now})
	}
	return s, 0, nil
}

func (o *OIDC) provider(ctx context.Context) (*source, error) {
	s, err := o.source.Get(ctx)
	if err != nil {
		return nil, errDown(err)
	}
	return s, nil
}

func errDown(err error) error {
	return broker.E(broker.Unavailable, "The identity provider does not answer, or sends an invalid response. Try again in a moment; if it persists, ask the operator of this ebb.", err)
}
