package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"time"

	"ebb/broker"
	"ebb/broker/egress/redact"
	"ebb/broker/exact"
	"ebb/broker/provider"
	"ebb/broker/transcript"
)

// Leases says whether a caller may use a credential now, and which there are;
// *broker.Broker does.
type Leases interface {
	Use(ctx context.Context, c broker.Caller, leaseID string) (broker.Usable, error)
	Injectable(ctx context.Context, c broker.Caller) ([]broker.Lease, error)
	Bare(ctx context.Context, c broker.Caller) ([]broker.Usable, error)
	Endpoint(l broker.Lease) (at provider.Endpoint, is bool)
}

// Hosts says by which credential a caller may open an SSH connection to a host, whether it may
// now, and in which connections a credential may have been used; *broker.Broker does.
type Hosts interface {
	LeaseTo(ctx context.Context, c broker.Caller, host exact.Host) (leaseID string, until time.Time, err error)
	MayHaveReached(ctx context.Context, leaseID string) (in func(broker.Caller, exact.Host) bool, err error)
	Reach(ctx context.Context, c broker.Caller, leaseID string, host exact.Host) (broker.Usable, error)
}

// Record keeps what goes out on the record; *broker.Broker does. Nothing goes out unless
// UseAllowed returns nil.
type Record interface {
	UseAllowed(ctx context.Context, c broker.Caller, u broker.Usable, x broker.Exchange) error
	UseCompleted(ctx context.Context, c broker.Caller, leaseID string, x broker.Exchange)
	UseDenied(ctx context.Context, c broker.Caller, leaseID string, x broker.Exchange)
}

// Config is what New needs.
type Config struct {
	Leases Leases // required
	Hosts  Hosts  // nil = none is reached
	Record Record // required
	// Answers keeps credentials that answers make; nil = such requests stay.
	Answers Answers
	Dialer  *Dialer // required
	// Roots verify upstreams; nil = those of this machine.
	Roots  *x509.CertPool
	Logger *slog.Logger     // nil = discard
	Now    func() time.Time // nil = time.Now
	// Connections are how many one box has at one time; 0 = 64.
	Connections int
	// Places are how many connections all boxes have at one time, with those to upstreams: each
	// is a descriptor. One task has no more than a part of those that are left: a quarter when there
	// are few, a sixteenth from 8,192 on. 0 = 4,096.
	Places int
	// Requests are how many of one box are under way at one time, over all connections, with
	// its WebSockets and SSH connections, and without its sessions: each request holds what
	// marks its credential in the answer. 0 = 256; those beyond wait.
	Requests int
	// Untrusted are hosts whose answers others can write.
	Untrusted []string
	// RequestBytes are what the body of one request has at most, and what is sent in one
	// WebSocket or SSH connection; TaskBytes what a task sends in all of those and in its
	// sessions; 0 = 1 GiB and 16 GiB.
	RequestBytes, TaskBytes int64
	// BodyTime is how long a box may keep a request's upstream waiting for the next 4 KiB of
	// its body, or for its end, until there is an answer; 0 = 30 s.
	BodyTime time.Duration
	// TranscriptRules say which requests are written down at Transcripts, which is required with
	// one. Each is as its Check wants it.
	TranscriptRules []TranscriptRule
	Transcripts     *transcript.Store
	// SocketTime is how long a WebSocket stays open in which nobody says anything; 0 = 5 min.
	SocketTime time.Duration
}

// Proxy is the way out of boxes. It is safe for concurrent use.
type Proxy struct {
	cfg   Config
	boxes cuts // boxes that are served, by their task
	cuts  cuts // what goes on in them, by task and lease
	piped piped
	pools pools
	sent  meters
	ends  ends

	places    places
	redactors *redactors
	named     *named // what looks for credentials that answers make

	transcripts *transcripts // nil = nothing is written down
}

// Causes of a cut.
var (
	ErrOver = errors.New("egress: the task or the credential is over")
	ErrBox  = errors.New("egress: the box is gone")

	errPaused = errors.New("egress: the task is paused")
	errDoubt  = errors.New("egress: nobody can say whether it may go on")
	errSlow   = errors.New("egress: the body of the request comes too slowly")
	errIdle   = errors.New("egress: in the WebSocket nobody has said anything for too long")
	errExpiry = errors.New("egress: the credential has had its time")
)

// New makes a Proxy.
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
		c.Places = maxPlaces
	}
	named, err := newNamed()
	if err != nil {
		return nil, err
	}
	transcripts, err := newTranscripts(c.Transcripts, c.TranscriptRules)
	if err != nil {
		return nil, err
	}
	return &Proxy{cfg: c, places: newPlaces(c.Places), redactors: newRedactors(redact.New), named: named, transcripts: transcripts}, nil
}

// End cuts whatever goes on by a task or a lease, to its last connection, and says how
// many requests and tunnels that were. Nothing of it goes on when End returns but what
// the kernel has in its buffers.
func (p *Proxy) End(id string) int {
	n := p.boxes.cut(id, ErrOver) + p.cuts.cut(id, ErrOver)
	p.pools.drop(id)
	p.redactors.drop(id)
	p.sent.forget(id)
	return n
}

// Pause cuts the requests of a task and of those below it. Their boxes stay, for when it
// is resumed.
func (p *Proxy) Pause(taskID string) {
	p.cuts.cut(taskID, errPaused)
	p.pools.drop(taskID)
	p.redactors.drop(taskID)
}

// Doubt cuts all requests there are: any of them may have ended.
func (p *Proxy) Doubt() {
	p.cuts.all(errDoubt)
	p.pools.all()
	p.redactors.dropAll()
}

// begin registers a box: End finds it from here on, and ends ctx. done follows.
func (p *Proxy) begin(ctx context.Context, who broker.Caller) (_ context.Context, done func()) {
	return p.boxes.begin(ctx, lineage(who)...)
}

// serve takes the connections of one box, all of which are of one caller, until ctx is
// done, which it is when End is called for its task or one above it, or the listener
// fails. It closes the listener. The box is registered: see begin.
func (p *Proxy) serve(ctx context.Context, l net.Listener, who broker.Caller, ca *CA) error {
	free, err := newFree()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	b := &box{p: p, who: who, ca: ca, tls: ca.config(), free: free, bares: bares{turn: make(chan struct{}, 1)}, slots: make(chan struct{}, p.cfg.Connections), busy: make(chan struct{}, p.cfg.Requests), tunnels: make(chan net.Conn), open: map[net.Conn]bool{},
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

// lineage is what a caller lives by: its task, and those above it.
func lineage(who broker.Caller) []string { return append([]string{who.TaskID}, who.Above...) }
