package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/ask"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/mcp"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/verify"
)

// mcpCommand implements ebb mcp.
type mcpCommand struct{ *cli }

// mcpFlags are the flags of `ebb mcp` in addition to those of a sandbox.
type mcpFlags struct {
	listen    string
	cert, key string
	resource  string
	scope     []string
	serverID  string
	serverKey string
	open      bool
	delivery  string
}

func newMCP(c *cli) *cobra.Command {
	var m mcpFlags
	cmd := &cobra.Command{
		Use: "mcp", Short: "Serve MCP clients (Model Context Protocol), as a sandbox", Args: cobra.NoArgs,
		Long: `Serve MCP clients (Model Context Protocol), as a sandbox: on standard input and output,
or over streamable HTTP with --listen. An agent requests, lists and revokes credentials;
responses contain placeholders, identifiers and addresses, never a secret.

The sandbox is the same as for 'ebb token': in a sandbox of 'ebb run' the runner's
socket, else the key file (EBB_KEY_FILE; EBB_TICKET enrols). The tool that completes the
task exists only in a sandbox of 'ebb run', because only the runner may complete it.

  {"mcpServers": {"ebb": {"command": "ebb", "args": ["mcp"]}}}

Over HTTP this is an OAuth resource server of ebb: clients need a token for --resource,
of the same task, with --require-scope. The server follows revocations as the principal
--server-id with --server-key (role resource_server). Any address but loopback needs
--tls-cert and --tls-key. In a sandbox of 'ebb run', whose loopback no other process
reaches, --unauthenticated accepts clients without a token.`,
	}
	f := cmd.Flags()
	f.StringVar(&m.listen, "listen", "", "`address` for streamable HTTP, such as 127.0.0.1:8430; default: standard input and output")
	f.StringVar(&m.cert, "tls-cert", "", "PEM `file` of the certificate for --listen")
	f.StringVar(&m.key, "tls-key", "", "PEM `file` of its key")
	f.StringVar(&m.resource, "resource", "", "`URL` that clients use, and the audience of their tokens; default: /mcp at --listen")
	f.StringSliceVar(&m.scope, "require-scope", nil, "scope that a client's token must have, repeatable")
	f.StringVar(&m.serverID, "server-id", "", "principal that follows revocations")
	f.StringVar(&m.serverKey, "server-key", "", "its private key `file`")
	f.BoolVar(&m.open, "unauthenticated", false, "in a sandbox of ebb run, on its loopback: require no token")
	f.Var(command.NewChoice(&m.delivery, policy.DeliveryToken, policy.DeliveryEgress), "delivery", "token or egress; default: in a sandbox of ebb run egress where possible, elsewhere token")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		if m.listen == "" {
			for _, name := range []string{"tls-cert", "tls-key", "resource", "require-scope", "server-id", "server-key", "unauthenticated"} {
				if cmd.Flags().Changed(name) {
					return usage("--"+name+" needs --listen", "remove it: on standard input and output the only client is the process that started ebb mcp")
				}
			}
			return mcpCommand{c}.mcpStdio(cmd, &m)
		}
		return mcpCommand{c}.mcpHTTP(cmd, &m)
	})
	return c.sandboxed(cmd)
}

// mcpService returns a service that acts as the sandbox of this process, and
// the task of that sandbox.
func (c mcpCommand) mcpService(cmd *cobra.Command, m *mcpFlags) (s *mcp.Service, taskID string, err error) {
	cfg := mcp.Config{Version: thisVersion().Version, Delivery: m.delivery}
	if c.keyFile == "" && c.env("EBB_ASK") != "" {
		a, err := tokenCommands(c).asker()
		if err != nil {
			return nil, "", err
		}
		cfg.Sandbox, cfg.Complete = a, completing(a)
		return mcp.New(cmd.Context(), cfg), c.env("EBB_TASK_ID"), nil
	}
	if c.env("EBB_TICKET") == "-" {
		return nil, "", usage("the ticket cannot be read from standard input, which is the MCP client's", "set EBB_TICKET to the ticket itself, or enrol before with `ebb token`")
	}
	sandbox, id, err := tokenCommands(c).sandbox(cmd, &tokenFlags{})
	if err != nil {
		return nil, "", err
	}
	cfg.Sandbox, cfg.Delivery = sandbox, cmp.Or(cfg.Delivery, policy.DeliveryToken) // a placeholder works only in a sandbox of ebb run
	return mcp.New(cmd.Context(), cfg), id.TaskID, nil
}

// completing has the runner complete the task.
func completing(a *ask.Client) func(context.Context) (mcp.Completed, error) {
	return func(ctx context.Context) (mcp.Completed, error) {
		done, err := a.Complete(ctx)
		return mcp.Completed(done), err
	}
}

// lastAnswer is how long a running call may still be answered after the signal
// to stop, and answerOut how long its response may take to be sent.
const (
	lastAnswer = 2 * time.Second
	answerOut  = lastAnswer / 4
)

func (c mcpCommand) mcpStdio(cmd *cobra.Command, m *mcpFlags) error {
	s, _, err := c.mcpService(cmd, m)
	if err != nil {
		return err
	}
	if err := serveStdio(cmd.Context(), s, c.stdin, c.stdout); err != nil {
		return fail("read from the MCP client: "+err.Error(), "start `ebb mcp` from an MCP client, which sends JSON-RPC with one message per line")
	}
	return nil
}

// serveStdio serves one client until it disconnects or this process is told to
// stop, and revokes the unused credentials. An agent that completes its own
// task makes the runner stop this process, perhaps before the response is sent;
// so a stop waits up to lastAnswer.
func serveStdio(told context.Context, s *mcp.Service, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(context.WithoutCancel(told))
	defer stop()
	defer context.AfterFunc(told, func() {
		bounded, cancel := context.WithTimeout(ctx, lastAnswer)
		defer cancel()
		s.Quiet(bounded, answerOut)
		stop()
	})()
	err := s.Serve(ctx, io.NopCloser(in), unclosed{out})
	s.Settle(context.WithoutCancel(told))
	return err
}

// unclosed is a stream that this command must not close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

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
func (m *mcpFlags) check(inSandbox bool) (*tls.Config, error) {
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
	case m.open && !inSandbox:
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
