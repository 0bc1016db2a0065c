package wire

import "time"

// EndpointIdentity is the way in which the egress proxy identifies the sandbox of a
// connection.
type EndpointIdentity string

// Endpoint identities, the stronger first.
const (
	EndpointByKernel EndpointIdentity = "kernel" // the connecting process is in the sandbox's network namespace
	EndpointBySocket EndpointIdentity = "socket" // the connection came through the socket of the egress endpoint
	EndpointByRunner EndpointIdentity = "runner" // its runner, on another machine, forwarded it with the runner's own key
)

// EndpointState is the state of an egress endpoint.
type EndpointState string

// States of egress endpoints.
const (
	EndpointWaiting EndpointState = "waiting" // its network namespace is not known yet; every connection is refused
	EndpointOpen    EndpointState = "open"
	EndpointClosed  EndpointState = "closed" // every connection is closed
)

// EgressEndpointSpec is the body of POST /v1/tasks/{id}/egress-endpoints.
type EgressEndpointSpec struct {
	// Tool is the tool whose credentials the endpoint may use; "" = any of the
	// task's.
	Tool string `json:"tool,omitempty"`
	// Identity is EndpointByRunner for a sandbox on another machine than ebb's; "" =
	// it is on ebb's machine.
	Identity EndpointIdentity `json:"identity,omitempty"`
	// Forward says that the sandbox connects to a socket of the runner, which forwards each connection through EgressEndpoint.Socket.
	// EndpointByRunner implies it.
	Forward bool `json:"forward,omitempty"`
	// ID is an endpoint of this task that was open before ebb restarted, and is
	// opened again with the same CA; "" = a new endpoint.
	ID string `json:"id,omitempty"`
}

// EgressEndpoint is the egress endpoint of one tool of one task. It is open in one process on one machine, and ends with its task.
type EgressEndpoint struct {
	// ID is "egr_" and 32 hex digits.
	ID string `json:"id"`
	// TaskID is the task.
	TaskID string `json:"task_id"`
	// Tool is the tool; "" = any of the task's.
	Tool string `json:"tool,omitempty"`
	// Socket is the path of a Unix socket that speaks HTTP, in its own
	// directory; "" for a sandbox on another machine.
	Socket string `json:"socket"`
	// CA is the PEM certificate of the CA that signs certificates of upstream
	// hosts, for this endpoint only.
	CA string `json:"ca"`
	// Identity is the way in which the proxy identifies the sandbox.
	Identity EndpointIdentity `json:"identity"`
	// State is the state of the endpoint.
	State EndpointState `json:"state"`
	// ExpiresAt is the deadline of the task.
	ExpiresAt time.Time `json:"expires_at"`
}

// NamespaceBody is the body of POST /v1/tasks/{id}/egress-endpoints/{endpoint}/register.
type NamespaceBody struct {
	// NetworkNamespace is the inode of the sandbox's network namespace.
	NetworkNamespace uint64 `json:"network_namespace"`
}

// UpgradeEgress is the value of the header Upgrade at POST /v1/tasks/{id}/egress-endpoints/{endpoint}/connect (RFC 9110 section 7.8).
const UpgradeEgress = "ebb-egress"

// TranscriptHead names the request that a transcript is of.
type TranscriptHead struct {
	// ID is "trn_" and 32 hex digits.
	ID string `json:"id"`
	// At is when the request was about to leave.
	At time.Time `json:"at"`
	// TaskID is the task.
	TaskID string `json:"task_id"`
	// LeaseID is the credential that egress added.
	LeaseID string `json:"lease_id"`
	// Rule is the rule that had it recorded.
	Rule string `json:"rule"`
	// Tool is the tool of the egress endpoint.
	Tool string `json:"tool,omitempty"`
	// Host is host:port. It is empty, with Rule, Method and Path, for a file that cannot be read.
	Host string `json:"host"`
	// Method is the HTTP method.
	Method string `json:"method"`
	// Path is the escaped path.
	Path string `json:"path"`
}

// Transcript is one request and its response as the sandbox saw them: without
// the credential, and with marks in place of other secrets.
type Transcript struct {
	TranscriptHead
	// Query is the escaped query; "" = there is none, or the rule does not record it.
	Query string `json:"query,omitempty"`
	// Request is the request.
	Request TranscriptMessage `json:"request"`
	// Answer is the response; nil = the request is in progress, or ebb stopped
	// before it ended.
	Answer *TranscriptMessage `json:"answer,omitempty"`
}

// TranscriptMessage is one direction of a transcript.
type TranscriptMessage struct {
	// Status is the HTTP status of a response; 0 = the sandbox got none.
	Status int `json:"status,omitempty"`
	// Headers are the header fields that the rule names.
	Headers map[string][]string `json:"headers,omitempty"`
	// Body is the body.
	Body TranscriptBody `json:"body"`
	// Cut reports that a response was cut off.
	Cut bool `json:"cut,omitempty"`
}

// TranscriptBody is a recorded body.
type TranscriptBody struct {
	// Type is the media type without parameters.
	Type string `json:"type,omitempty"`
	// Bytes is the number of bytes that passed.
	Bytes int64 `json:"bytes"`
	// Text is the beginning of the body, with [redacted] in place of secrets.
	Text string `json:"text,omitempty"`
	// LeftOut is the number of bytes after Text.
	LeftOut int64 `json:"left_out,omitempty"`
	// Withheld is why there is no Text; "" = there is one, or there is no body.
	Withheld Withheld `json:"withheld,omitempty"`
}

// Withheld is why the text of a body was not recorded.
type Withheld string

// Reasons.
const (
	WithheldNotAsked   Withheld = "not_asked"  // the rule records 0 bytes of it
	WithheldNotText    Withheld = "not_text"   // it is not text, or not what its media type says
	WithheldCompressed Withheld = "compressed" // it could not be searched for secrets
)
