package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/mcp"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/verify"
)

// mcpAnswer is the write timeout of one response. It includes minting at a
// provider and the longest wait for an approval.
const mcpAnswer = 3 * time.Minute

// mcpHTTP serves streamable HTTP until the context ends.
func (c mcpCommand) mcpHTTP(cmd *cobra.Command, m *mcpFlags) error {
	ctx := cmd.Context()
	tc, err := m.check(c.env("EBB_ASK") != "")
	if err != nil {
		return err
	}
	s, taskID, err := c.mcpService(cmd, m)
	if err != nil {
		return err
	}
	l, err := web.ListenTCP(ctx, m.listen)
	if err != nil {
		return fail(err.Error(), "name a free address of this machine with --listen")
	}
	defer l.Close()
	if m.resource == "" {
		m.resource = map[bool]string{false: "http://", true: "https://"}[tc != nil] + l.Addr().String() + "/mcp"
	}
	v, err := c.mcpVerifier(m)
	if err != nil {
		return err
	}
	h, err := s.Handler(mcp.HTTPConfig{Resource: m.resource, Hosts: []string{l.Addr().String()}, Verifier: v, TaskID: taskID})
	if err != nil {
		return usage(err.Error(), "name with --resource the URL that clients use")
	}
	if v != nil {
		go func() { _ = v.Run(ctx) }()
	}
	c.sayf("ebb: MCP at %s\n", m.resource)
	err = serveMCP(ctx, web.Capped(l, web.Conns(0.5)), tc, h)
	s.Settle(context.WithoutCancel(ctx))
	return err
}

func serveMCP(ctx context.Context, l net.Listener, tc *tls.Config, h http.Handler) error {
	srv := &http.Server{
		Handler: web.CloseAfterChunked(h), TLSConfig: tc, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: mcpAnswer, IdleTimeout: time.Minute,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // An agent that completes its own task is stopped by the runner, perhaps before the response is sent.
		defer close(stopped)
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswer)
		defer cancel()
		if srv.Shutdown(bounded) != nil {
			_ = srv.Close()
		}
	})
	defer func() {
		if !stop() {
			<-stopped
		}
	}()
	var err error
	if tc != nil {
		err = srv.ServeTLS(l, "", "")
	} else {
		err = srv.Serve(l)
	}
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// check refuses flags that would accept unauthenticated clients, before
// anything else happens.
func (m *mcpFlags) check(inBox bool) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(m.listen)
	ip := net.ParseIP(host)
	if err != nil || ip == nil {
		return nil, usage("--listen is not an IP address with a port", "write it like 127.0.0.1:8430")
	}
	// A token may be bound to the client's certificate; its issuer does not
	// matter.
	tc, err := serverTLS(config.TLS{Cert: m.cert, Key: m.key, ClientCerts: config.AnyClientCert})
	switch {
	case err != nil:
		return nil, err
	case (m.cert == "") != (m.key == ""):
		return nil, usage("only one of --tls-cert and --tls-key is set", "set both")
	case !ip.IsLoopback() && tc == nil:
		return nil, usage("an address other than loopback needs TLS", "name --tls-cert and --tls-key, or listen on 127.0.0.1")
	case ip.IsUnspecified() && m.resource == "":
		return nil, usage("with an address for every interface the URL of clients is unknown", "name it with --resource")
	case m.open && !ip.IsLoopback():
		return nil, usage("--unauthenticated is allowed on loopback only", "remove it; clients then need a token")
	case m.open && !inBox:
		return nil, usage("--unauthenticated is allowed in a sandbox of `ebb run` only, whose loopback no other process reaches", "remove it; clients then need a token")
	case m.open && (len(m.scope) > 0 || m.serverID != "" || m.serverKey != ""):
		return nil, usage("--unauthenticated excludes --require-scope, --server-id and --server-key", "remove --unauthenticated or the others")
	case !m.open && (len(m.scope) == 0 || m.serverID == "" || m.serverKey == ""):
		return nil, usage("clients need a token, and its requirements are not set", "name --require-scope, --server-id and --server-key; in a sandbox of `ebb run` --unauthenticated is possible instead")
	}
	return tc, nil
}

// mcpVerifier verifies the tokens of clients; nil = no token is required.
func (c mcpCommand) mcpVerifier(m *mcpFlags) (*verify.Verifier, error) {
	if m.open {
		return nil, nil
	}
	set, err := parseScopes(m.scope)
	if err != nil {
		return nil, err
	}
	f, err := keyfile.Read(m.serverKey)
	if err != nil {
		return nil, usage(err.Error(), "name with --server-key the private key of --server-id")
	}
	peer, err := c.peer()
	if err != nil {
		return nil, err
	}
	v, err := verify.New(verify.Config{
		Issuer: peer.Issuer, Resource: m.resource, ClientID: m.serverID, Key: f.Key, HTTP: peer.HTTP,
		RequireScopes: func(*http.Request) (scopes.Set, error) { return set, nil }, Scopes: set,
	})
	if err != nil {
		return nil, usage(err.Error(), "check --url, --resource and --server-id")
	}
	return v, nil
}
