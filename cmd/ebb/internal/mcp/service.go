package mcp

import (
	"context"
	"errors"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ebb/web/client"
)

// Sandbox is who asks: *client.Sandbox, or the box's side of the runner's socket.
type Sandbox interface {
	Token(ctx context.Context, r client.TokenRequest) (client.Credential, error)
	Credentials(ctx context.Context) ([]client.Given, error)
	RevokeLease(ctx context.Context, leaseID string) error
}

// Completed is how the end of the task went.
type Completed struct {
	Revoked        int `json:"revoked"`
	AlreadyExpired int `json:"already_expired"`
	Withdrawn      int `json:"withdrawn_pending"`
	Owed           int `json:"owed"`
}

// Config is what New needs. Sandbox is required.
type Config struct {
	Sandbox Sandbox
	// Complete ends the task in the name of who may; nil = nobody here may, and there is no
	// tool for it.
	Complete func(context.Context) (Completed, error)
	Version  string // of ebb
	// Delivery is what is asked for: "" as ebb would deliver it, for who is in a box, else
	// policy.DeliveryToken.
	Delivery string
}

// Service answers MCP clients as one sandbox. All of them share what that one asked for.
type Service struct {
	cfg    Config
	desk   *desk
	calls  calls
	server *sdk.Server
}

// maxMessage bounds one JSON-RPC message; arguments are far below.
const maxMessage = 256 << 10

const instructions = `ebb gives this task short-lived credentials. No tool here returns a secret.
Ask with request_credential for the narrowest scope that does the work, as provider:resource:action.
A placeholder is used where the credential belongs (a header, a password): ebb's egress proxy replaces it on the way out.
When the state is pending, tell the person the request_url and look again with get_request; asking again asks nobody again.
Give back what is not needed any more with revoke_credential.`

// New makes a Service. Questions that wait for a person do so until ctx ends.
func New(ctx context.Context, c Config) *Service {
	s := &Service{cfg: c, desk: newDesk(ctx, c.Sandbox, c.Delivery)}
	s.server = sdk.NewServer(&sdk.Implementation{Name: "ebb", Title: "ebb credentials", Version: c.Version}, &sdk.ServerOptions{
		Instructions: instructions, Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	s.tools()
	return s
}

// Settle waits until what nobody waits for any more is ended, at most as long as one end
// may take. Clients must be gone.
func (s *Service) Settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	s.desk.settled(ctx)
}

// Serve speaks to one client over a pair of streams until it hangs up or ctx ends. A client
// that sends what is no JSON-RPC is hung up on.
func (s *Service) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	err := s.server.Run(ctx, &sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: maxMessage})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
