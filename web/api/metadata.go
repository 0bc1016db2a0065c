package api

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provideradmin"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// discovery serves metadata, keys, the API document and the health endpoints.
type discovery struct {
	keyMaxAge time.Duration
	links     Links
	mutualTLS bool
	clock     func() time.Time
	ssh       SSHHosts
	b         discoveryBroker
	dpopAlgs  []jose.Alg
	issuer    string
	methods   []attest.ClientMethod
	mux       *web.Mux
	origin    string

	ready readiness
}

// discoveryBroker is the part of the broker that discovery calls.
type discoveryBroker interface {
	ProviderInfos() []provideradmin.ProviderInfo
	JWKS() []byte
	Ready(ctx context.Context) []broker.Dependency
}

// documents are the responses that do not change while the process runs.
type documents struct {
	metadata []byte
	resource []byte
}

// cacheFor is the Cache-Control header of the documents.
const cacheFor = "public, max-age=300"

func (b *discovery) documents() (documents, error) {
	var d documents
	var err error
	if d.metadata, err = json.Marshal(b.serverMetadata()); err != nil {
		return d, err
	}
	d.resource, err = json.Marshal(b.resourceMetadata())
	return d, err
}

// serverMetadata never advertises an endpoint that does not exist, and leaves out members without elements (RFC 8414
// section 3.2). Clients refuse a document without the three members that are for an authorization code flow, which ebb
// does not have: decision 0097.
func (d *discovery) serverMetadata() wire.ServerMetadata {
	var dpopAlgs []string
	for _, alg := range d.dpopAlgs {
		dpopAlgs = append(dpopAlgs, string(alg))
	}
	assertion, algs := []string{"private_key_jwt"}, []string{"ES256", "EdDSA", "Ed25519", "RS256", "PS256"}
	m := wire.ServerMetadata{
		Issuer: d.issuer, AuthorizationEndpoint: d.issuer + "/oauth2/authorize", TokenEndpoint: d.issuer + "/oauth2/token", JWKSURI: d.issuer + "/.well-known/jwks.json",
		IntrospectionEndpoint: d.issuer + "/oauth2/introspect", RevocationEndpoint: d.issuer + "/oauth2/revoke",
		BackchannelEndpoint: d.issuer + "/oauth2/bc-authorize", BackchannelModes: []string{"poll"},
		GrantTypes: grants(), ResponseTypes: []string{}, ChallengeMethods: []string{"S256"}, Scopes: roleNames(),
		// none: a token exchange authenticates by the subject token and its key.
		TokenAuth: append(assertion, "none"), TokenAuthAlgs: algs,
		IntrospectionAuth: assertion, IntrospectionAuthAlgs: algs, RevocationAuth: assertion, RevocationAuthAlgs: algs,
		DPoPAlgs: dpopAlgs, DetailTypes: []string{scopes.DetailType}, MutualTLS: d.mutualTLS,
		ProtectedResources: []string{d.issuer + "/v1"}, ServiceDocumentation: d.issuer + "/openapi.yaml",
	}
	for _, p := range d.b.ProviderInfos() {
		m.ProtectedResources = append(m.ProtectedResources, p.Resource)
	}
	for _, method := range d.methods {
		// A client certificate authenticates only where the server requests
		// one.
		if method.AssertionType != "" || d.mutualTLS {
			m.TokenAuth = append(m.TokenAuth, method.Name)
		}
	}
	return m
}

func (d *discovery) resourceMetadata() wire.ResourceMetadata {
	server := d.serverMetadata()
	return wire.ResourceMetadata{
		Resource: d.issuer + "/v1", AuthorizationServers: []string{d.issuer}, Scopes: roleNames(), BearerMethods: []string{"header"},
		ResourceName: "ebb", DPoPAlgs: server.DPoPAlgs, MutualTLS: d.mutualTLS, Documentation: d.issuer + "/openapi.yaml",
	}
}

func (d *discovery) resourceMetadataURL() string {
	return d.origin + "/.well-known/oauth-protected-resource" + d.mux.Base() + "/v1"
}

func roleNames() []string {
	var names []string
	for _, r := range roles {
		names = append(names, string(r))
	}
	return names
}

// document serves bytes that never change, with an ETag.
func (d *discovery) document(body []byte, contentType string) echo.HandlerFunc {
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

// jwks serves the key set (RFC 7517 section 8.5). A key must be in every cache
// before it signs, so the key ring determines the max-age.
func (d *discovery) jwks(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "public, max-age="+strconv.Itoa(int(d.keyMaxAge.Seconds())))
	return c.Blob(http.StatusOK, "application/jwk-set+json", d.b.JWKS())
}

// authorize serves GET /oauth2/authorize, because MCP clients require the
// endpoint. It answers every request with an error and never redirects: ebb has
// no authorization code flow and no registered redirect_uri.
func (d *discovery) authorize(echo.Context) error {
	return broker.E(web.Unauthorized, "The authorization code flow is not supported. Use a grant type of grant_types_supported in the metadata.", nil)
}

// problem serves the description of a problem type (RFC 9457 section 3.1.1).
func (d *discovery) problem(c echo.Context) error {
	for _, k := range web.Kinds() {
		if string(k) == c.Param("kind") {
			line := web.Lookup(k)
			return web.WriteJSON(c, http.StatusOK, wire.ProblemType{Type: d.issuer + "/problems/" + string(k), Title: line.Title, Status: line.Status, OAuth: line.OAuth})
		}
	}
	return broker.E(broker.NotFound, "There is no such problem type.", nil)
}

//go:embed openapi.yaml
var openapiDocument []byte

// openapiInJSON returns openapiDocument as JSON. The first request converts it: at the start of ebb the
// conversion would take a tenth of the time.
var openapiInJSON = sync.OnceValues(func() ([]byte, error) {
	var v any
	if err := yaml.Unmarshal(openapiDocument, &v); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return json.Marshal(v)
})

func (d *discovery) openapiJSON(c echo.Context) error {
	body, err := openapiInJSON()
	if err != nil {
		return err
	}
	return d.document(body, "application/json")(c)
}
