package broker

import (
	"time"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/provider"
)

// EndpointState is the state of a sandbox's egress endpoint.
type EndpointState string

// States of an egress endpoint.
const (
	EndpointWaiting EndpointState = "waiting" // its network namespace is not known yet: no connection is accepted
	EndpointOpen    EndpointState = "open"    //
	EndpointClosed  EndpointState = "closed"  // all its connections are closed
)

// EndpointIdentity is the evidence by which the egress proxy assigns a connection to an endpoint.
type EndpointIdentity string

// Endpoint identities, strongest first.
const (
	EndpointByKernel EndpointIdentity = "kernel" // the connecting process is in the sandbox's network namespace
	EndpointBySocket EndpointIdentity = "socket" // the connection arrived at the endpoint's socket
	EndpointByRunner EndpointIdentity = "runner" // the runner, on another machine, forwarded it with its own key
)

// EgressEndpointSpec is a runner's request for an egress endpoint.
type EgressEndpointSpec struct {
	Tool string `json:"tool,omitempty"` // "" = any tool of the task
	// Identity is EndpointByRunner for a sandbox on another machine. "" = the sandbox is on ebb's
	// machine, and ebb chooses between EndpointByKernel and EndpointBySocket.
	Identity EndpointIdentity `json:"identity,omitempty"`
	// Forward: the sandbox connects to a socket of the runner's. On ebb's machine the runner
	// forwards each connection to EgressEndpoint.Socket. EndpointByRunner implies it.
	Forward bool `json:"forward,omitempty"`
	// ID is the id of an endpoint of this task that was open before ebb restarted. It is opened
	// again with the CA that its sandbox trusts. "" = a new endpoint.
	ID string `json:"id,omitempty"`
}

// EgressEndpoint is an egress endpoint: the proxy's socket for one tool of one task. It exists in one
// process and on one machine, and ends with its task.
type EgressEndpoint struct {
	ID        string           `json:"id"` // "egr_..."
	TaskID    string           `json:"task_id"`
	Tool      string           `json:"tool,omitempty"` // "" = any tool of the task
	Socket    string           `json:"socket"`         // path of a unix socket that speaks HTTP, alone in its directory; with EgressEndpointSpec.Forward, where the runner forwards connections to; "" = the sandbox is on another machine
	CA        string           `json:"ca"`             // PEM of the CA that signs the certificates inside tunnels, for this endpoint only
	Identity  EndpointIdentity `json:"identity"`
	State     EndpointState    `json:"state"`
	ExpiresAt time.Time        `json:"expires_at"` // deadline of the task

	Above []string `json:"-"` // see Caller
}

// Caller returns the identity under which the endpoint's requests are sent.
func (x EgressEndpoint) Caller() Caller {
	return Caller{TaskID: x.TaskID, Tool: x.Tool, Above: x.Above}
}

// Caller identifies the sender of a request through egress, derived from the socket that it
// used.
type Caller struct {
	TaskID string
	Tool   string   // "" = any tool of the task
	Above  []string // tasks that delegated to it, the runner's own first
}

// Root returns the id of the runner's task at the top of the caller's delegation tree. Limits
// per task apply to it and all tasks below it together.
func (c Caller) Root() string {
	if len(c.Above) > 0 {
		return c.Above[0]
	}
	return c.TaskID
}

// Usable is a credential that egress may use for the current request, session or connection
// only: it adds it to a request (Injector), opens a session with it (Connector), or forwards an
// SSH connection under it (Reach: neither Injector nor Connector). It must not be kept for the
// next one, because the credential may be revoked at any moment.
type Usable struct {
	Provider       string // as the configuration names it
	Target         provider.Target
	Injector       provider.Injector  // nil = not usable for requests
	Connector      provider.Connector // nil = not usable for sessions
	Credentialless bool               // it adds no secret, so that responses need no redaction

	Task  Task
	Lease Lease
	Spent []Spending // sums that limits of the lease are about: at the provider, and of Lease.OneUse
}

// Exchange is the audit log's description of one request, session or SSH connection through
// egress. It holds nothing of the query, the headers, the body or the session's content.
//
// Its members are in alphabetical order, so that the JSON is in canonical form as it is written
// (RFC 8785 section 3.2.3). The audit log has two of them for each request and need not parse
// them again.
type Exchange struct {
	// Content is the effect of the body or statement, if a provider reads it; nil = not read. The
	// entry about the end of a request does not repeat it.
	Content  *content.Facts `json:"content,omitempty"`
	Cut      bool           `json:"cut,omitempty"`      // ended early by ebb or by an error
	Database string         `json:"database,omitempty"` // of a database session
	Host     string         `json:"host,omitempty"`     // host:port
	Method   string         `json:"method,omitempty"`
	Millis   int64          `json:"ms,omitempty"`
	Path     string         `json:"path,omitempty"`     // escaped, at most MaxExchangePath bytes
	Protocol string         `json:"protocol,omitempty"` // of a session or of SSH; "" = an HTTP request
	Reason   string         `json:"reason,omitempty"`
	Received int64          `json:"received_bytes,omitempty"`
	Redacted int64          `json:"redacted,omitempty"` // number of secrets redacted from the response
	Sent     int64          `json:"sent_bytes,omitempty"`
	Status   int            `json:"status,omitempty"` // of the upstream; 0 = it did not answer
	Tool     string         `json:"tool,omitempty"`
	// Transcript is the id of the transcript. WithoutTranscript = a rule asks for a transcript,
	// and there was no room for it; "" = no rule asks for one.
	Transcript string `json:"transcript,omitempty"`
	Untrusted  bool   `json:"-"` // third parties can write the content of this host's responses
}

// EndedExchange is an exchange that has ended, and whose end is not in the audit log yet.
type EndedExchange struct {
	Caller   Caller
	LeaseID  string
	Exchange Exchange
}

// MaxExchangePath bounds the path of an Exchange, in bytes.
const MaxExchangePath = 256
