package main

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/ask"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/mcp"
	"github.com/ebb-broker/ebb/scopes/policy"
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
	f.StringVar(&m.delivery, "delivery", "", "token or egress; default: in a sandbox of ebb run egress where possible, elsewhere token")
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
	return c.boxed(cmd)
}

// mcpService returns a service that acts as the sandbox of this process, and
// the task of that sandbox.
func (c mcpCommand) mcpService(cmd *cobra.Command, m *mcpFlags) (s *mcp.Service, taskID string, err error) {
	if !slices.Contains([]string{"", policy.DeliveryToken, policy.DeliveryEgress}, m.delivery) {
		return nil, "", usage("--delivery must be token or egress", "remove it for the default")
	}
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
	box, id, err := tokenCommands(c).sandbox(cmd, &tokenFlags{})
	if err != nil {
		return nil, "", err
	}
	cfg.Sandbox, cfg.Delivery = box, cmp.Or(cfg.Delivery, policy.DeliveryToken) // a placeholder works only in a sandbox of ebb run
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
