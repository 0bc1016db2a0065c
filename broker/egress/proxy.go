package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/redact"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/scopes"
)

// Leases returns the leases of a caller, whether one may be used now, and which scopes the caller
// could request. *broker.Broker implements it.
type Leases interface {
	Use(ctx context.Context, c broker.Caller, leaseID string) (broker.Usable, error)
	Injectable(ctx context.Context, c broker.Caller) ([]broker.Lease, error)
	Bare(ctx context.Context, c broker.Caller) ([]broker.Usable, error)
	Endpoint(l broker.Lease) (at provider.Endpoint, is bool)
	NeededFor(ctx context.Context, c broker.Caller, r *http.Request, upgrade bool) ([]scopes.Scope, error)
	NeededAt(ctx context.Context, c broker.Caller, at provider.Endpoint) ([]scopes.Scope, error)
}

// Hosts returns the lease that covers an SSH connection to a host, whether it may be used now, and
// which connections may have used a lease. *broker.Broker implements it.
type Hosts interface {
	LeaseTo(ctx context.Context, c broker.Caller, host stricturl.Host) (leaseID string, until time.Time, err error)
	MayHaveReached(ctx context.Context, leaseID string) (in func(broker.Caller, stricturl.Host) bool, err error)
	Reach(ctx context.Context, c broker.Caller, leaseID string, host stricturl.Host) (broker.Usable, error)
}

// Record writes requests to the audit log; *broker.Broker implements it. Nothing is sent unless
// UseAllowed returns nil.
type Record interface {
	UseAllowed(ctx context.Context, c broker.Caller, u broker.Usable, x broker.Exchange) error
	UseCompleted(ctx context.Context, c broker.Caller, leaseID string, x broker.Exchange)
	UseDenied(ctx context.Context, c broker.Caller, leaseID string, x broker.Exchange)
}

// Config is what New needs.
type Config struct {
	Leases Leases // required
	Hosts  Hosts  // nil = no SSH connections
	Record Record // required
	// Answers stores credentials that responses create; nil = requests for such responses are
	// refused.
	Answers Answers
	Dialer  *Dialer // required
	// Roots verify upstreams; nil = the roots of this machine.
	Roots  *x509.CertPool
	Logger *slog.Logger     // nil = discard
	Now    func() time.Time // nil = time.Now
	// Connections is how many connections one sandbox may have open; 0 = 64.
	Connections int
	// Places is how many connections all sandboxes may have open, including those to upstreams.
	// Each costs a file descriptor. One task may take a part of the free ones: a quarter if Places
	// is below 2,560, a sixteenth if it is 8,192 or more. 0 = 4,096.
	Places int
	// Requests is how many requests of one sandbox may run at one time, over all connections.
	// WebSockets and SSH connections count, PostgreSQL sessions do not. Each request holds a
	// redactor for its response. 0 = 256; further requests wait.
	Requests int
	// Untrusted are hosts whose responses third parties can write. The audit log marks requests to
	// them.
	Untrusted []string
	// RequestBytes limits the body of one request, and the data that is sent in one WebSocket or
	// SSH connection; 0 = 1 GiB. TaskBytes limits what a task sends in all of these and in its
	// sessions; 0 = 16 GiB.
	RequestBytes, TaskBytes int64
	// BodyTime is how long a sandbox may take for each 4 KiB of a request body, or for its end,
	// until the response begins; 0 = 30 s.
	BodyTime time.Duration
	// TranscriptRules select the requests whose transcripts are stored in Transcripts, which is
	// required if there are rules. Each rule must pass its Check.
	TranscriptRules []TranscriptRule
	Transcripts     *transcript.Store
	// SocketTime is how long a WebSocket without traffic stays open; 0 = 5 min.
	SocketTime time.Duration
}

// Proxy serves the egress endpoints of sandboxes. It is safe for concurrent use.
type Proxy struct {
	cfg            Config
	endpoints      activeSet // open endpoints, by task
	active         activeSet // running requests and connections, by task and lease
	sshConnections sshConnections
	pools          pools
	sent           sentBytes
	pending        pendingEnds

	connectionLimit connectionLimit
	redactors       *redactors
	named           *named // finds credentials that responses create

	transcripts *transcripts // nil = no transcripts
}

// Causes of a disconnection.
var (
	ErrOver           = errors.New("egress: closed: the task or the credential has ended; nothing more is sent")
	ErrEndpointClosed = errors.New("egress: closed: the egress endpoint was closed; open another one")

	errPaused = errors.New("egress: closed: the task is paused; try again after it is resumed")
	errDoubt  = errors.New("egress: closed: revocations may have been missed; send the request again")
	errSlow   = errors.New("egress: closed: the request body arrived too slowly; the time for 4 KiB is Config.BodyTime (30 s by default)")
	errExpiry = errors.New("egress: closed: the credential has expired; ask for another one")
)

// New returns a Proxy with the defaults of Config filled in.
func New(c Config) (*Proxy, error) {
	if c.Leases == nil || c.Record == nil || c.Dialer == nil {
		return nil, errors.New("egress: Leases, Record and Dialer are required")
	}
	if c.RequestBytes <= 0 {
		c.RequestBytes = 1 << 30
	}
	if c.TaskBytes <= 0 {
		c.TaskBytes = 16 << 30
	}
	if c.BodyTime <= 0 {
		c.BodyTime = 30 * time.Second
	}
	if c.SocketTime <= 0 {
		c.SocketTime = 5 * time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Connections <= 0 {
		c.Connections = 64
	}
	if c.Requests <= 0 {
		c.Requests = 256
	}
	if c.Places <= 0 {
		c.Places = maxConnections
	}
	named, err := newNamed()
	if err != nil {
		return nil, err
	}
	transcripts, err := newTranscripts(c.Transcripts, c.TranscriptRules)
	if err != nil {
		return nil, err
	}
	return &Proxy{cfg: c, connectionLimit: newConnectionLimit(c.Places), redactors: newRedactors(redact.New), named: named, transcripts: transcripts}, nil
}

// End disconnects everything that depends on a task or lease, and returns the number of endpoints,
// requests and connections. After it returns, only data in buffers of the kernel is still sent.
func (p *Proxy) End(id string) int {
	n := p.endpoints.disconnect(id, ErrOver) + p.active.disconnect(id, ErrOver)
	p.pools.drop(id)
	p.redactors.drop(id)
	p.sent.forget(id)
	return n
}

// Pause disconnects the requests of a task and its subtasks. Their endpoints stay open for when the
// task is resumed.
func (p *Proxy) Pause(taskID string) {
	p.active.disconnect(taskID, errPaused)
	p.pools.drop(taskID)
	p.redactors.drop(taskID)
}

// Doubt disconnects all requests: the lease of any of them may have been revoked.
func (p *Proxy) Doubt() {
	p.active.all(errDoubt)
	p.pools.all()
	p.redactors.dropAll()
}

// begin registers an endpoint, so that End can end ctx. The caller must call done.
func (p *Proxy) begin(ctx context.Context, who broker.Caller) (_ context.Context, done func()) {
	return p.endpoints.begin(ctx, lineage(who)...)
}

// serve serves the connections of one endpoint until ctx is done or the listener fails, and closes
// the listener. The caller has called begin, so that ctx ends when End is called for the task or a
// task above it.
func (p *Proxy) serve(ctx context.Context, l net.Listener, who broker.Caller, ca *CA) error {
	workLimits, err := newWorkLimits()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	b := &endpoint{p: p, who: who, ca: ca, tls: ca.config(), workLimits: workLimits, credentialLessLeases: credentialLessLeases{turn: make(chan struct{}, 1)}, slots: make(chan struct{}, p.cfg.Connections), busy: make(chan struct{}, p.cfg.Requests), tunnels: make(chan net.Conn), open: map[net.Conn]bool{},
		errorLog: slog.NewLogLogger(p.cfg.Logger.Handler(), slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() {
		if stopping(ctx) {
			_ = l.Close() // see drain
			return
		}
		b.close(l)
	})
	defer stop()
	return b.serve(ctx, l)
}

// lineage returns the ids of the tasks that a caller depends on: its own and those above it.
func lineage(who broker.Caller) []string { return append([]string{who.TaskID}, who.Above...) }
