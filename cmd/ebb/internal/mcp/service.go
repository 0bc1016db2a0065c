package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/verify"
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

// HTTPConfig configures access to a Service over HTTP. Resource is required.
type HTTPConfig struct {
	// Resource is the URL that clients use, and the required aud of their tokens.
	Resource string
	// Hosts are further accepted values of the Host header.
	Hosts []string
	// Verifier verifies tokens for Resource; nil = no token is required, for a
	// listener that only the sandbox can reach.
	Verifier *verify.Verifier
	// TaskID is the task of the sandbox: tokens of other tasks are refused. It is
	// required with Verifier.
	TaskID string
}

// maxCalls is the maximum number of calls at one time.
const maxCalls = 32

// Handler serves streamable HTTP without sessions: there is no session ID to
// guess or hijack, and a client that ends leaves no state behind.
func (s *Service) Handler(c HTTPConfig) (http.Handler, error) {
	u, err := url.Parse(c.Resource)
	if err != nil || u.Host == "" || u.Path == "" || u.Path == "/" {
		return nil, errPath
	}
	var calls http.Handler = limited(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: true,
	}))
	mux := http.NewServeMux()
	if v := c.Verifier; v != nil {
		next := calls
		calls = v.Handler(func(w http.ResponseWriter, r *http.Request, t *verify.Token) {
			if t.TaskID != c.TaskID || c.TaskID == "" {
				deny(w, "The token belongs to another task than this server's sandbox.")
				return
			}
			// The credentials for this server are not passed on.
			r.Header.Del("Authorization")
			r.Header.Del("DPoP")
			next.ServeHTTP(w, r)
		})
		mux.Handle(v.MetadataPath(), v.Metadata())
	}
	mux.Handle(u.Path, calls)
	return own(mux, u, c.Hosts), nil
}

// own refuses requests for another host name (DNS rebinding) and from pages of
// other sites: a browser on this machine is not an MCP client.
func own(next http.Handler, u *url.URL, hosts []string) http.Handler {
	hosts = append(slices.Clone(hosts), u.Host)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origins := r.Header.Values("Origin")
		switch {
		case !slices.Contains(hosts, r.Host):
			deny(w, "The Host header does not name this server.")
		case len(origins) > 1, len(origins) == 1 && origins[0] != u.Scheme+"://"+u.Host:
			deny(w, "Pages of other sites may not call this server.")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// limited responds with 503 beyond maxCalls.
func limited(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxCalls)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "2")
			problem(w, http.StatusServiceUnavailable, "Too many calls at one time.")
		}
	})
}

func deny(w http.ResponseWriter, said string) { problem(w, http.StatusForbidden, said) }

// problem writes problem details (RFC 9457).
func problem(w http.ResponseWriter, status int, said string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": said}) // the client may be gone
}

var errPath = errors.New("the resource must be a URL with a path, such as http://127.0.0.1:8430/mcp")
