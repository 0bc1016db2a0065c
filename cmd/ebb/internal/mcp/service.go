package mcp

import (
	"context"
	"errors"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// Sandbox makes the requests: *client.Sandbox, or the client of the runner's
// socket in a sandbox.
type Sandbox interface {
	Token(ctx context.Context, r client.TokenRequest) (client.Credential, error)
	Credentials(ctx context.Context) ([]wire.OwnCredential, error)
	RevokeLease(ctx context.Context, leaseID string) error
}

// Completed is the result of completing the task.
type Completed struct {
	Revoked            int `json:"revoked"`
	AlreadyExpired     int `json:"already_expired"`
	Withdrawn          int `json:"withdrawn_pending"`
	PendingRevocations int `json:"pending_revocations"`
}

// Config configures New. Sandbox is required.
type Config struct {
	Sandbox Sandbox
	// Complete completes the task; nil = this server may not, and offers no tool
	// for it.
	Complete func(context.Context) (Completed, error)
	Version  string // of ebb
	// Delivery is requested for every credential: "" = ebb's default, for a
	// server in a sandbox of ebb run; else wire.DeliveryToken.
	Delivery string
}

// Service serves MCP clients as one sandbox. All clients share its requests and
// credentials.
type Service struct {
	cfg    Config
	desk   *desk
	calls  calls
	server *sdk.Server
}

// maxMessage is the maximum size in bytes of one JSON-RPC message.
const maxMessage = 256 << 10

const instructions = `ebb gives this task short-lived credentials. No tool here returns a secret.
Call request_credential with the narrowest scope that does the work, as provider:resource:action.
Put a placeholder where the credential belongs (a header, a password): ebb's egress proxy replaces it in outgoing requests.
If the state is pending, tell the person the request_url and poll with get_request; repeating the request has no effect.
Revoke credentials that are no longer needed with revoke_credential.`

// New returns a Service. Requests that wait for an approval are abandoned when
// ctx ends.
func New(ctx context.Context, c Config) *Service {
	s := &Service{cfg: c, desk: newDesk(ctx, c.Sandbox, c.Delivery)}
	s.server = sdk.NewServer(&sdk.Implementation{Name: "ebb", Title: "ebb credentials", Version: c.Version}, &sdk.ServerOptions{
		Instructions: instructions, Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	s.tools()
	return s
}

// Settle waits until unused credentials are revoked, at most endTime. Clients
// must be disconnected.
func (s *Service) Settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	s.desk.settled(ctx)
}

// Serve serves one client over a pair of streams until it disconnects or ctx
// ends. A client that sends invalid JSON-RPC is disconnected.
func (s *Service) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	err := s.server.Run(ctx, &sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: maxMessage})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
