package main

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/internal/ask"
	"ebb/cmd/ebb/internal/mcp"
	"ebb/scopes/policy"
)

// mcpFlags are the flags of `ebb mcp` beside those of a sandbox.
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
or over streamable HTTP with --listen. An agent asks for credentials, sees what it has and
gives it back; answers hold placeholders, names and addresses, never a secret.

Who asks is found as 'ebb token' finds it: in a box of 'ebb run' the runner's socket, else
the key file (EBB_KEY_FILE; EBB_TICKET enrols). Only in a box there is a tool that ends the
task, because only the runner may.

  {"mcpServers": {"ebb": {"command": "ebb", "args": ["mcp"]}}}

Over HTTP this is an OAuth resource server of ebb: clients need a token for --resource,
of the same task, with --require-scope. Revocations are followed as the principal
--server-id with --server-key (role resource_server). Anything but loopback needs
--tls-cert and --tls-key. In a box, whose loopback nobody else reaches, --unauthenticated
lets everybody in.`,
	}
	f := cmd.Flags()
	f.StringVar(&m.listen, "listen", "", "`address` for streamable HTTP, such as 127.0.0.1:8430; default: standard input and output")
	f.StringVar(&m.cert, "tls-cert", "", "PEM `file` of the certificate for --listen")
	f.StringVar(&m.key, "tls-key", "", "PEM `file` of its key")
	f.StringVar(&m.resource, "resource", "", "`URL` that clients use, and the audience of their tokens; default: /mcp at --listen")
	f.StringSliceVar(&m.scope, "require-scope", nil, "what a client's token must permit, repeatable")
	f.StringVar(&m.serverID, "server-id", "", "principal that follows revocations")
	f.StringVar(&m.serverKey, "server-key", "", "its private key `file`")
	f.BoolVar(&m.open, "unauthenticated", false, "in a box, on its loopback: ask clients for no token")
	f.StringVar(&m.delivery, "delivery", "", "token or egress; default: in a box as ebb would deliver it, elsewhere token")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		if m.listen == "" {
			for _, name := range []string{"tls-cert", "tls-key", "resource", "require-scope", "server-id", "server-key", "unauthenticated"} {
				if cmd.Flags().Changed(name) {
					return usage("--"+name+" is for --listen", "leave it out: on standard input and output there is one client, which started this")
				}
			}
			return c.mcpStdio(cmd, &m)
		}
		return c.mcpHTTP(cmd, &m)
	})
	return c.boxed(cmd)
}

// mcpService acts as the sandbox that this process is, and says of which task that is.
func (c *cli) mcpService(cmd *cobra.Command, m *mcpFlags) (s *mcp.Service, taskID string, err error) {
	if !slices.Contains([]string{"", policy.DeliveryToken, policy.DeliveryEgress}, m.delivery) {
		return nil, "", usage("--delivery is token or egress", "leave it out for what fits")
	}
	cfg := mcp.Config{Version: thisVersion().Version, Delivery: m.delivery}
	if c.keyFile == "" && c.env("EBB_ASK") != "" {
		a, err := c.asker()
		if err != nil {
			return nil, "", err
		}
		cfg.Sandbox, cfg.Complete = a, completing(a)
		return mcp.New(cmd.Context(), cfg), c.env("EBB_TASK_ID"), nil
	}
	if c.env("EBB_TICKET") == "-" {
		return nil, "", usage("standard input is the MCP client's", "give the ticket itself in EBB_TICKET, or enrol before with `ebb token`")
	}
	box, id, err := c.sandbox(cmd, &tokenFlags{})
	if err != nil {
		return nil, "", err
	}
	cfg.Sandbox, cfg.Delivery = box, cmp.Or(cfg.Delivery, policy.DeliveryToken) // a placeholder is of use in a box alone
	return mcp.New(cmd.Context(), cfg), id.TaskID, nil
}

// completing has the runner end the task.
func completing(a *ask.Client) func(context.Context) (mcp.Completed, error) {
	return func(ctx context.Context) (mcp.Completed, error) {
		done, err := a.Complete(ctx)
		return mcp.Completed(done), err
	}
}

// lastAnswer is how long what was called may still be answered after the signal to stop,
// and answerOut how long an answer may take to get out.
const (
	lastAnswer = 2 * time.Second
	answerOut  = lastAnswer / 4
)

func (c *cli) mcpStdio(cmd *cobra.Command, m *mcpFlags) error {
	s, _, err := c.mcpService(cmd, m)
	if err != nil {
		return err
	}
	if err := serveStdio(cmd.Context(), s, c.stdin, c.stdout); err != nil {
		return fail("the MCP client sent what cannot be read: "+err.Error(), "start `ebb mcp` from an MCP client; it speaks JSON-RPC, one message a line")
	}
	return nil
}

// serveStdio serves one client until it hangs up or this process is told to stop, and ends
// what that leaves without a holder. Who ends its own task is told to stop by the runner,
// maybe before the answer is out.
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

// unclosed is a stream that is not this command's to close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
