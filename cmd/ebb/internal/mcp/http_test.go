package mcp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/mcp"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/verify"
)

const mayCall = "mcp:tools:read"

// serve runs the MCP server of a new task over HTTP, at the listener of the fixture.
func (h *fixture) serve(open bool) (task string, w *watched) {
	h.t.Helper()
	task, w = h.task()
	c := mcp.HTTPConfig{Resource: h.resource(), TaskID: task}
	if !open {
		need := scopes.MustParseSet(mayCall)
		v, err := verify.New(verify.Config{
			Issuer: h.issuer, Resource: h.resource(), ClientID: "mcp-server", Key: h.env.Keys["mcp-server"],
			RequireScopes: func(*http.Request) (scopes.Set, error) { return need, nil }, Scopes: need,
		})
		if err != nil {
			h.t.Fatal(err)
		}
		done := make(chan struct{})
		ctx := h.t.Context()
		go func() { defer close(done); _ = v.Run(ctx) }()
		for v.Ready() != nil {
			time.Sleep(5 * time.Millisecond)
		}
		c.Verifier = v
	}
	handler, err := mcp.New(h.t.Context(), mcp.Config{Sandbox: w, Version: "test"}).Handler(c)
	if err != nil {
		h.t.Fatal(err)
	}
	srv := &httptest.Server{Listener: h.listener, Config: &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}}
	srv.Start()
	h.t.Cleanup(srv.Close)
	return task, w
}

// token gets the token that an MCP client needs at a server.
func (w *watched) token(t *testing.T, scope, resource string) client.Credential {
	t.Helper()
	cred, err := w.Sandbox.Token(t.Context(), client.TokenRequest{Scope: scope, Resource: resource})
	if err != nil {
		t.Fatal(err)
	}
	return cred
}

// The flow of MCP authorization (2026-07-28) with ebb as the authorization
// server: 401, protected resource metadata, server metadata, a token for this
// resource, the call.
func TestAuthorizationFlow(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	_, w := h.serve(false)
	ctx := t.Context()
	resp, err := http.Post(h.resource(), "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	challenges, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil || resp.StatusCode != http.StatusUnauthorized || len(challenges) == 0 {
		t.Fatalf("%d, %q, %v", resp.StatusCode, resp.Header.Values("WWW-Authenticate"), err)
	}
	about, err := oauthex.GetProtectedResourceMetadata(ctx, challenges[0].Params["resource_metadata"], h.resource(), http.DefaultClient)
	if err != nil || about.Resource != h.resource() || len(about.AuthorizationServers) != 1 || about.AuthorizationServers[0] != h.issuer {
		t.Fatalf("A100: %+v, %v", about, err)
	}
	if scope := challenges[0].Params["scope"]; scope != mayCall || !slices.Equal(about.ScopesSupported, []string{mayCall}) {
		t.Fatalf("the challenge names the scope %q and the metadata %q, want %s", scope, about.ScopesSupported, mayCall)
	}
	server, err := auth.GetAuthServerMetadata(ctx, about.AuthorizationServers[0], http.DefaultClient)
	if err != nil || server.Issuer != h.issuer || server.TokenEndpoint != h.issuer+"/oauth2/token" {
		t.Fatalf("%+v, %v", server, err)
	}
	cred := w.token(t, about.ScopesSupported[0], about.Resource)
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: h.resource(), HTTPClient: &http.Client{Transport: w.Transport(cred, nil)}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "request_credential", Arguments: map[string]any{"scope": "stripe:charges:read"}})
	if err != nil || got.IsError || s.ID() != "" {
		t.Errorf("%+v, %v, session %q", got, err, s.ID())
	}
}

// A100, A109, A110, H76, H77: a caller without permission has no effect.
//
//ebb:invariant I2 The MCP server over HTTP refuses access tokens of another task
//ebb:invariant I2 The MCP server over HTTP refuses requests for another host name and requests from web pages of another origin
func TestStrangersOverHTTP(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	_, w := h.serve(false)
	_, other := h.task()
	leases, _ := h.tally()
	good := w.token(t, mayCall, h.resource())
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"request_credential","arguments":{"scope":"stripe:charges:read"}}}`
	mine := w.Transport(good, nil)
	told, err := (&http.Client{Transport: mine}).Post(h.resource(), "application/json", strings.NewReader("{}"))
	if err != nil { // the response contains the nonce that a server requires after its start
		t.Fatal(err)
	}
	_ = told.Body.Close()
	for name, c := range map[string]struct {
		change func(*http.Request)
		via    http.RoundTripper
		status int
		says   string
	}{
		"no token":                 {func(*http.Request) {}, nil, 401, `scope="` + mayCall + `", algs="ES256 EdDSA Ed25519", resource_metadata="`},
		"A109 another resource":    {func(*http.Request) {}, w.Transport(w.elsewhere(t, h), nil), 401, `error="invalid_token"`},
		"A109 in the query":        {func(r *http.Request) { r.URL.RawQuery = url.Values{"access_token": {good.Token.Reveal()}}.Encode() }, nil, 400, `error="invalid_request"`},
		"A110 another scope":       {func(*http.Request) {}, w.Transport(w.token(t, "mcp:others:read", h.resource()), nil), 403, `scope="` + mayCall + `"`},
		"H38 as bearer":            {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+good.Token.Reveal()) }, nil, 401, "error="},
		"the token of a thief":     {func(*http.Request) {}, other.Transport(good, nil), 401, `error="invalid_token"`},
		"the task of another":      {func(*http.Request) {}, other.Transport(other.token(t, mayCall, h.resource()), nil), 403, ""},
		"H76 another host":         {func(r *http.Request) { r.Host = "evil.example" }, mine, 403, ""},
		"H76 the name of loopback": {func(r *http.Request) { r.Host = "localhost:" + r.URL.Port() }, mine, 403, ""},
		"H76 another origin":       {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, mine, 403, ""},
		"H76 no origin at all":     {func(r *http.Request) { r.Header.Set("Origin", "null") }, mine, 403, ""},
		"another path":             {func(r *http.Request) { r.URL.Path = "/other" }, mine, 404, ""},
		"too much": {func(r *http.Request) {
			r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat(" ", 300<<10)+call)), nil, -1
		}, mine, 413, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.resource(), strings.NewReader(call))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		c.change(req)
		resp, err := (&http.Client{Transport: c.via}).Do(req)
		if err != nil {
			if !strings.Contains(err.Error(), client.ErrOrigin.Error()) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || !strings.Contains(resp.Header.Get("WWW-Authenticate"), c.says) {
			t.Errorf("%s: %d %q %s", name, resp.StatusCode, resp.Header.Get("WWW-Authenticate"), body)
		}
	}
	aud, err := w.Credentials(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range aud {
		if strings.HasPrefix(g.Scope, "stripe") {
			t.Errorf("a stranger got %s (there were %d before)", g.Scope, leases)
		}
	}
}

// elsewhere is a token for another resource.
func (w *watched) elsewhere(t *testing.T, h *fixture) client.Credential {
	t.Helper()
	cred := w.token(t, "orders:eu/42:read", "")
	cred.Resource = h.resource()
	return cred
}

// Without a verifier, for a listener on the sandbox's own loopback, a page of
// another site is still refused.
//
//ebb:invariant I2 The MCP server over HTTP refuses requests for another host name and requests from web pages of another origin
func TestUnauthenticated(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.serve(true)
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: h.resource(), DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "list_credentials"}); err != nil || got.IsError {
		t.Errorf("%+v, %v", got, err)
	}
	for _, header := range []http.Header{{"Origin": {"http://localhost:3000"}}, {"Origin": {"http://" + h.listener.Addr().String(), "https://evil.example"}}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.resource(), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%v: %d", header, resp.StatusCode)
		}
	}
}
