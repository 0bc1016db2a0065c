package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/egress/http1"
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
	Credentialless(ctx context.Context, c broker.Caller) ([]broker.Usable, error)
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
// UseAllowed, and for a statement of a session Statement, returns nil.
type Record interface {
	UseAllowed(ctx context.Context, c broker.Caller, u broker.Usable, x broker.Exchange) error
	Statement(ctx context.Context, c broker.Caller, leaseID string, x broker.Exchange, spends []broker.Spending) error
	UseCompleted(ctx context.Context, ends ...broker.EndedExchange)
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

// place takes a slot for a connection of a task until give is called. If the task has its share, place
// closes the task's unused upstream connections and tries again; nil = it still has its share.
func (p *Proxy) place(root string) (give func()) {
	if give = p.connectionLimit.take(root); give != nil {
		return give
	}
	p.pools.idle(root)
	return p.connectionLimit.take(root)
}

// dial connects for a caller.
func (p *Proxy) dial(who broker.Caller, to func() (net.Conn, error)) (net.Conn, error) {
	give := p.place(who.Root())
	if give == nil {
		return nil, deny(Crowded, errConnectionLimit)
	}
	c, err := to()
	if err != nil {
		give()
		return nil, err
	}
	return &dialled{slot{Conn: c, give: give}}, nil
}

// pool returns the pool for a request; the caller must call leave. A task with as many pools as it
// may have loses the one that was unused for longest.
func (p *Proxy) pool(who broker.Caller, t provider.Target, h stricturl.Host, c *clientcert.Certificate) (*pool, error) {
	k, now := poolKey{leaseID: t.LeaseID, host: h, certificate: c.ID()}, p.cfg.Now()
	p.pools.mu.Lock()
	defer p.pools.mu.Unlock()
	if found := p.pools.of[k]; found != nil {
		found.busy++
		found.old = false
		found.shown.Store(c.Show())
		return found, nil
	}
	if now.Sub(p.pools.swept) >= idlePool/4 {
		p.pools.sweep(now)
	}
	for !p.pools.count.take(who.Root(), 1, taskPools, maxPools) {
		if !p.pools.giveUp(who.Root()) {
			return nil, deny(TooOften, errors.New("all upstream connections of the task are in use"))
		}
	}
	p.pools.replace(k)
	made := p.dials(who, t, h)
	made.key, made.busy = k, 1
	made.shown.Store(c.Show())
	p.pools.put(made)
	return made, nil
}

// dials makes a pool whose connections lead to h.
func (p *Proxy) dials(who broker.Caller, t provider.Target, h stricturl.Host) *pool {
	life, stop := context.WithCancel(context.Background())
	made := &pool{ids: append([]string{who.Root()}, append(lineage(who), t.LeaseID)...), end: t.ExpiresAt, open: map[net.Conn]bool{}, stop: stop}
	dial := func(ctx context.Context) (net.Conn, error) {
		// After a request is cancelled, http.Transport goes on dialling for later ones. A closed pool
		// gets no later ones, so that closing it cancels the dial.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		c, err := p.dial(who, func() (net.Conn, error) { return p.cfg.Dialer.Dial(ctx, h) })
		if err != nil {
			return nil, err
		}
		return made.keep(c)
	}
	config := &tls.Config{RootCAs: p.cfg.Roots, ServerName: h.Name, MinVersion: tls.VersionTLS12, Time: p.cfg.Now, GetClientCertificate: made.show}
	made.http2 = &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true, DisableCompression: true, TLSHandshakeTimeout: handshakeTime,
		MaxIdleConnsPerHost: maxIdleHTTP2, MaxConnsPerHost: 256, IdleConnTimeout: idleConnection, MaxResponseHeaderBytes: maxResponseHead,
	}
	config.NextProtos = []string{"http/1.1"}
	made.http1 = http1.Client{MaxConns: maxHTTP1, IdleTime: idleConnection, MaxHead: maxResponseHead, Dial: func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return secure(ctx, c, config)
	}}
	return made
}
