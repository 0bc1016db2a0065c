package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/scopes"
	"ebb/web"
)

// metadata is the authorization server metadata document (RFC 8414 section 2).
// It never advertises what is not there, and members without elements are left
// out (section 3.2).
type metadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint,omitempty"` // MCP compatibility only
	TokenEndpoint         string   `json:"token_endpoint"`
	JWKSURI               string   `json:"jwks_uri"`
	IntrospectionEndpoint string   `json:"introspection_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	BackchannelEndpoint   string   `json:"backchannel_authentication_endpoint"`
	BackchannelModes      []string `json:"backchannel_token_delivery_modes_supported"`
	GrantTypes            []string `json:"grant_types_supported"`
	ResponseTypes         []string `json:"response_types_supported,omitempty"`         // MCP compatibility only
	ChallengeMethods      []string `json:"code_challenge_methods_supported,omitempty"` // MCP compatibility only
	Scopes                []string `json:"scopes_supported"`
	TokenAuth             []string `json:"token_endpoint_auth_methods_supported"`
	TokenAuthAlgs         []string `json:"token_endpoint_auth_signing_alg_values_supported"`
	IntrospectionAuth     []string `json:"introspection_endpoint_auth_methods_supported"`
	IntrospectionAuthAlgs []string `json:"introspection_endpoint_auth_signing_alg_values_supported"`
	RevocationAuth        []string `json:"revocation_endpoint_auth_methods_supported"`
	RevocationAuthAlgs    []string `json:"revocation_endpoint_auth_signing_alg_values_supported"`
	DPoPAlgs              []string `json:"dpop_signing_alg_values_supported"`
	DetailTypes           []string `json:"authorization_details_types_supported"`
	MutualTLS             bool     `json:"tls_client_certificate_bound_access_tokens,omitempty"`
	ProtectedResources    []string `json:"protected_resources"`
	ServiceDocumentation  string   `json:"service_documentation"`
}

// protectedResource is RFC 9728 section 2, for /v1.
type protectedResource struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	Scopes               []string `json:"scopes_supported"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	ResourceName         string   `json:"resource_name"`
	DPoPAlgs             []string `json:"dpop_signing_alg_values_supported"`
	MutualTLS            bool     `json:"tls_client_certificate_bound_access_tokens,omitempty"`
	Documentation        string   `json:"resource_documentation"`
}

// documents are the answers that do not change while the process runs.
type documents struct {
	metadata    []byte
	resource    []byte
	openapiYAML []byte
	openapiJSON []byte
}

// cacheFor is how long documents may be cached.
const cacheFor = "public, max-age=300"

func (a *API) documents() (documents, error) {
	var d documents
	var err error
	if d.metadata, err = json.Marshal(a.serverMetadata()); err != nil {
		return d, err
	}
	if d.resource, err = json.Marshal(a.resourceMetadata()); err != nil {
		return d, err
	}
	d.openapiYAML = openapiDocument
	d.openapiJSON, err = asJSON(openapiDocument)
	return d, err
}

func (a *API) serverMetadata() metadata {
	var dpopAlgs []string
	for _, alg := range a.b.DPoPAlgs() {
		dpopAlgs = append(dpopAlgs, string(alg))
	}
	assertion, algs := []string{"private_key_jwt"}, []string{"ES256", "EdDSA", "Ed25519", "RS256", "PS256"}
	m := metadata{
		Issuer: a.issuer, TokenEndpoint: a.issuer + "/oauth2/token", JWKSURI: a.issuer + "/.well-known/jwks.json",
		IntrospectionEndpoint: a.issuer + "/oauth2/introspect", RevocationEndpoint: a.issuer + "/oauth2/revoke",
		BackchannelEndpoint: a.issuer + "/oauth2/bc-authorize", BackchannelModes: []string{"poll"},
		GrantTypes: grants(), Scopes: roleNames(),
		// none: a token exchange authenticates by the subject token and its key.
		TokenAuth: append(assertion, "none"), TokenAuthAlgs: algs,
		IntrospectionAuth: assertion, IntrospectionAuthAlgs: algs, RevocationAuth: assertion, RevocationAuthAlgs: algs,
		DPoPAlgs: dpopAlgs, DetailTypes: []string{scopes.DetailType}, MutualTLS: a.cfg.MutualTLS,
		ProtectedResources: []string{a.issuer + "/v1"}, ServiceDocumentation: a.issuer + "/openapi.yaml",
	}
	for _, p := range a.b.ProviderInfos() {
		m.ProtectedResources = append(m.ProtectedResources, p.Resource)
	}
	for _, method := range a.methods {
		// The certificate is a proof only where clients are asked for one.
		if method.AssertionType != "" || a.cfg.MutualTLS {
			m.TokenAuth = append(m.TokenAuth, method.Name)
		}
	}
	if a.cfg.MCPCompat {
		m.AuthorizationEndpoint = a.issuer + "/oauth2/authorize"
		m.ResponseTypes, m.ChallengeMethods = []string{"code"}, []string{"S256"}
	}
	return m
}

func (a *API) resourceMetadata() protectedResource {
	server := a.serverMetadata()
	return protectedResource{
		Resource: a.issuer + "/v1", AuthorizationServers: []string{a.issuer}, Scopes: roleNames(), BearerMethods: []string{"header"},
		ResourceName: "ebb", DPoPAlgs: server.DPoPAlgs, MutualTLS: a.cfg.MutualTLS, Documentation: a.issuer + "/openapi.yaml",
	}
}

func (a *API) resourceMetadataURL() string {
	return a.origin + "/.well-known/oauth-protected-resource" + a.mux.Base() + "/v1"
}

func roleNames() []string {
	var names []string
	for _, r := range roles() {
		names = append(names, string(r))
	}
	return names
}

// document serves bytes that never change, with a validator.
func (a *API) document(body []byte, contentType string) echo.HandlerFunc {
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Cache-Control", cacheFor)
		h.Set("ETag", tag)
		if c.Request().Header.Get("If-None-Match") == tag {
			return c.NoContent(http.StatusNotModified)
		}
		return c.Blob(http.StatusOK, contentType, body)
	}
}

// jwks is RFC 7517 section 8.5. A key must be in every cache before it signs, so
// the ring says how long they may hold it.
func (a *API) jwks(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "public, max-age="+strconv.Itoa(int(a.cfg.KeyMaxAge.Seconds())))
	return c.Blob(http.StatusOK, "application/jwk-set+json", a.b.JWKS())
}

// authorize is what MCP clients want to exist (decision D2): there is no browser
// flow, and it says so. It redirects nowhere: no redirect_uri is registered.
func (a *API) authorize(echo.Context) error {
	return broker.E(web.Unauthorized, "There is no authorization code flow here. Use a grant of grant_types_supported.", nil)
}

// problemPage says what a problem type means (RFC 9457 section 3.1.1).
type problemPage struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	OAuth  string `json:"oauth_error"` // what /oauth2 calls it
}

func (a *API) problem(c echo.Context) error {
	for _, k := range web.Kinds() {
		if string(k) == c.Param("kind") {
			line := web.Lookup(k)
			return web.WriteJSON(c, http.StatusOK, problemPage{Type: a.issuer + "/problems/" + string(k), Title: line.Title, Status: line.Status, OAuth: line.OAuth})
		}
	}
	return broker.E(broker.NotFound, "There is no such problem type.", nil)
}
