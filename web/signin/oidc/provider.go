package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
)

// algs are the accepted signature algorithms. All are asymmetric, so that
// published keys cannot sign.
var algs = []jose.Alg{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA, jose.Ed25519}

// metadata is what ebb reads of the provider's metadata (OpenID Connect
// Discovery 1.0 section 3, RFC 9207 section 3).
type metadata struct {
	Issuer   string     `json:"issuer"`
	AuthURL  string     `json:"authorization_endpoint"`
	TokenURL string     `json:"token_endpoint"`
	UserInfo string     `json:"userinfo_endpoint"` // "" = none
	Keys     string     `json:"jwks_uri"`
	Algs     []jose.Alg `json:"id_token_signing_alg_values_supported"`
	Auth     []string   `json:"token_endpoint_auth_methods_supported"`
	SaysIss  bool       `json:"authorization_response_iss_parameter_supported"`
}

// source is the provider as its metadata describes it.
type source struct {
	oauth    oauth2.Config
	profile  jose.Profile
	keys     *jose.KeyCache
	userInfo string
	saysIss  bool // RFC 9207: the authorization response contains iss
}

// get reads JSON from the provider. token is an access token, or "".
func (o *OIDC) get(ctx context.Context, address, token string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read-only body
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered with status %d", address, resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body) // the client bounds it
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func (o *OIDC) read(ctx context.Context) (*source, time.Duration, error) {
	var says metadata
	if err := o.get(ctx, strings.TrimSuffix(o.cfg.Issuer, "/")+"/.well-known/openid-configuration", "", &says); err != nil {
		return nil, 0, err
	}
	if says.Issuer != o.cfg.Issuer {
		return nil, 0, fmt.Errorf("the provider calls itself %q, but console.oidc.issuer is %q; both must be equal to the character", says.Issuer, o.cfg.Issuer)
	}
	says.Algs = slices.DeleteFunc(says.Algs, func(a jose.Alg) bool { return !slices.Contains(algs, a) })
	if len(says.Algs) == 0 {
		return nil, 0, errors.New("id_token_signing_alg_values_supported contains no algorithm that ebb accepts")
	}
	here, _ := url.Parse(o.cfg.Issuer)
	for what, text := range map[string]string{"authorization_endpoint": says.AuthURL, "token_endpoint": says.TokenURL, "jwks_uri": says.Keys, "userinfo_endpoint": says.UserInfo} {
		if text == "" && what == "userinfo_endpoint" { // optional (Discovery section 3)
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != here.Scheme || u.Host != here.Host) {
			return nil, 0, fmt.Errorf("the provider's %s is not an https URL", what)
		}
	}
	endpoint := oauth2.Endpoint{AuthURL: says.AuthURL, TokenURL: says.TokenURL}
	switch {
	case len(says.Auth) == 0 || slices.Contains(says.Auth, "client_secret_basic"): // the default of Discovery section 3
		endpoint.AuthStyle = oauth2.AuthStyleInHeader
	case slices.Contains(says.Auth, "client_secret_post"):
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	default:
		return nil, 0, errors.New("the provider accepts no client secret: token_endpoint_auth_methods_supported has neither client_secret_basic nor client_secret_post")
	}
	s := &source{userInfo: says.UserInfo, saysIss: says.SaysIss, profile: o.profile(says.Algs)}
	s.oauth = oauth2.Config{ClientID: o.cfg.ClientID, ClientSecret: o.cfg.ClientSecret.Reveal(), Endpoint: endpoint, RedirectURL: o.cfg.Base + "/signin/" + o.Name() + "/callback", Scopes: o.cfg.Scopes}
	var err error
	s.keys, err = jose.NewKeyCache(jose.CacheConfig{URL: says.Keys, Fetch: o.cfg.Fetch, Now: o.cfg.Now, Logger: o.cfg.Logger})
	return s, 0, err
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
