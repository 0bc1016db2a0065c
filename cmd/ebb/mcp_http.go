package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/internal/config"
	"ebb/cmd/ebb/internal/keyfile"
	"ebb/cmd/ebb/internal/mcp"
	"ebb/scopes"
	"ebb/web"
	"ebb/web/verify"
)

// mcpAnswer bounds one answer, with a provider that mints and the longest wait for a person
// in it.
const mcpAnswer = 3 * time.Minute

// mcpHTTP serves streamable HTTP until the command is told to end.
func (c *cli) mcpHTTP(cmd *cobra.Command, m *mcpFlags) error {
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
		Handler: h, TLSConfig: tc, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: mcpAnswer, IdleTimeout: time.Minute,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // Who ends its own task is told to stop, maybe before the answer is out.
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

// check refuses, before anything happens, what would let strangers in.
func (m *mcpFlags) check(inBox bool) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(m.listen)
	ip := net.ParseIP(host)
	if err != nil || ip == nil {
		return nil, usage("--listen is no address", "write it like 127.0.0.1:8430")
	}
	tc, err := serverTLS(config.TLS{Cert: m.cert, Key: m.key})
	switch {
	case err != nil:
		return nil, err
	case (m.cert == "") != (m.key == ""):
		return nil, usage("--tls-cert and --tls-key go together", "name both")
	case !ip.IsLoopback() && tc == nil:
		return nil, usage("anything but loopback needs TLS", "name --tls-cert and --tls-key, or listen on 127.0.0.1")
	case ip.IsUnspecified() && m.resource == "":
		return nil, usage("an address for every interface says nothing of what clients use", "name it with --resource")
	case m.open && !ip.IsLoopback():
		return nil, usage("--unauthenticated is for loopback", "leave it out: clients then need a token")
	case m.open && !inBox:
		return nil, usage("--unauthenticated is for a box of `ebb run`, whose loopback nobody else reaches", "leave it out: clients then need a token")
	case m.open && (len(m.scope) > 0 || m.serverID != "" || m.serverKey != ""):
		return nil, usage("--unauthenticated and what is asked of tokens exclude each other", "leave one of them out")
	case !m.open && (len(m.scope) == 0 || m.serverID == "" || m.serverKey == ""):
		return nil, usage("clients need a token, and nothing says which", "name --require-scope, --server-id and --server-key; in a box of `ebb run`, where nobody else reaches loopback, --unauthenticated does")
	}
	return tc, nil
}

// mcpVerifier checks the tokens of clients; nil = none are asked for.
func (c *cli) mcpVerifier(m *mcpFlags) (*verify.Verifier, error) {
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
		RequireScopes: func(*http.Request) (scopes.Set, error) { return set, nil },
	})
	if err != nil {
		return nil, usage(err.Error(), "check --url, --resource and --server-id")
	}
	return v, nil
}
