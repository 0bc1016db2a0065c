package broker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/expirable"
	"golang.org/x/time/rate"

	"ebb/attest"
	"ebb/attest/clock"
	"ebb/attest/dpop"
	"ebb/attest/jose"
	"ebb/broker/audit"
)

// Broker is the life of tasks, requests and leases. Its methods are safe for
// concurrent use and return *Error.
type Broker struct {
	cfg        Config
	principals map[string]*PrincipalConfig
	codeKey    []byte // HMAC key of deferral codes
	verified   *lru.LRU[[32]byte, *ownToken]
	taskTokens *lru.LRU[[32]byte, attest.Identity]
	silent     silences
	budgets    *lru.LRU[string, budget]
	limited    *lru.LRU[limitKey, time.Time] // when they may ask again
	noted      *lru.LRU[string, time.Time]   // what noteSeldom wrote last
	used       *lru.LRU[string, Lease]       // what Use was asked for
	roots      *lru.LRU[string, string]      // tasks that Use counts against, by task
	tombs      tombs
	cuts       cutting
	refusals   refusals    // through egress
	down       atomic.Bool // the ledger is not complete: fail closed
	strangers  *rate.Limiter
	signedMu   sync.Mutex
	signed     map[string]audit.Head // heads under a checkpoint, by writer
	signedBy   string                // the key of the last checkpoint
	namedKeys  map[string]bool       // signing keys that are on the audit log, by id
	owedMu     sync.Mutex
	owed       map[string]TaskMove // closings that a store has not taken yet
	owedLeases map[string]owedLease
	keptEnds   map[string]bool // owed ends that are in the file of pending ends
	endsFile   pendingFile
	losses     atomic.Int64 // of the ledger, as far as they are reckoned with
	since      atomic.Int64 // the ledger remembers proofs from this moment on, Unix seconds
	clock      *clock.Clock
	recorded   atomic.Int64    // when the last entry was made that there was when this process began, Unix milliseconds
	jump       atomic.Int64    // of the clock, as the log has it
	people     map[string]bool // attestors that recognise principals
	decoys     jose.KeySource  // of client assertions of clients that are not known
	m          *metrics

	instance  string
	upstreams map[string]*upstream // third parties, by the provider's name
	rang      bells                // leases that reached a final state
	kept      handles
	ghosts    ghosts
	sandboxes watched
	vouched   vouchers
	judged    *judged
	crowd     crowd
	holds     holds
	sequels   *sequels
	insights  answerCache[Insights]
	usage     answerCache[Usage]
	leases    leaseTallies
	marks     marks
	replays   replays
	markMu    sync.Mutex
	marking   marking
	missing   atomic.Pointer[error] // the database lacks what was durable: nothing is served
	behind    atomic.Bool           // something is owed to a provider that is not configured any more
	countMu   sync.Mutex
	counted   map[string]bool // such providers in the metrics
}

// New makes a broker and refills the ledger from the journal: when it returns,
// what the journal knows is in force.
func New(ctx context.Context, c Config) (*Broker, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c.Limits = c.Limits.withDefaults()
	c.BreakGlass = c.BreakGlass.withDefaults()
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if len(c.DPoPAlgs) == 0 {
		c.DPoPAlgs = []jose.Alg{jose.ES256, jose.EdDSA, jose.Ed25519}
	}
	b := &Broker{
		cfg:        c,
		clock:      clock.New(c.Now, c.Steady),
		principals: map[string]*PrincipalConfig{},
		codeKey:    c.Keys.Derive("deferral-code"),
		verified:   lru.NewLRU[[32]byte, *ownToken](8192, nil, time.Minute),
		taskTokens: lru.NewLRU[[32]byte, attest.Identity](4096, nil, time.Minute),
		budgets:    lru.NewLRU[string, budget](16384, nil, time.Hour),
		limited:    lru.NewLRU[limitKey, time.Time](4096, nil, time.Minute),
		noted:      lru.NewLRU[string, time.Time](8192, nil, time.Minute),
		used:       lru.NewLRU[string, Lease](8192, nil, time.Minute),
		roots:      lru.NewLRU[string, string](8192, nil, time.Hour),
		signed:     map[string]audit.Head{},
		strangers:  rate.NewLimiter(strangersPerSecond, 10*strangersPerSecond),
		owed:       map[string]TaskMove{},
		owedLeases: map[string]owedLease{},
		keptEnds:   map[string]bool{},
		people:     map[string]bool{},
		counted:    map[string]bool{},
		m:          newMetrics(c.Registerer),
		sandboxes:  watched{stops: map[string]context.CancelFunc{}, elsewhere: map[string]bool{}, newcomers: make(chan string, 1024)},
		holds:      holds{of: map[string]map[*Hold]holdState{}},
		sequels:    newSequels(),
		vouched:    vouchers{ends: map[string]voucher{}},
		judged:     newJudged(c),
		crowd:      newCrowd(),
	}
	var err error
	if b.decoys, err = newDecoys(); err != nil {
		return nil, fmt.Errorf("making the decoy keys of client assertions: %w", err)
	}
	b.upstreams = newUpstreams(c, b.m)
	if b.instance = c.Instance; b.instance == "" {
		b.instance = InstanceOf(c.Issuer)
	}
	for i := range c.Principals {
		p := &c.Principals[i]
		if _, twice := b.principals[p.ID]; twice {
			return nil, fmt.Errorf("principal %q is configured twice", p.ID)
		}
		b.principals[p.ID] = p
		if p.Match != nil {
			if p.Match.Attestor == enrollName { // it vouches for sandboxes alone, and they are never principals
				return nil, fmt.Errorf("principal %q is matched by the attestor of sandboxes", p.ID)
			}
			b.people[p.Match.Attestor] = true
		}
	}
	if err := b.readClock(ctx); err != nil {
		return nil, err
	}
	if err := b.openMarks(ctx); err != nil {
		return nil, err
	}
	pending, err := b.readPending()
	if err != nil {
		return nil, err
	}
	b.losses.Store(c.Ledger.Losses())
	if err := b.refill(ctx); err != nil {
		return nil, fmt.Errorf("refilling the ledger from the journal: %w", err)
	}
	b.payPending(ctx, pending)
	if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{
		b.entry(audit.BrokerStarted, self, map[string]any{"policy": b.PolicyVersion(), "issuer": b.cfg.Issuer}),
	}}); err != nil {
		return nil, fmt.Errorf("recording the start: %w", err)
	}
	return b, nil
}

// Issuer is the public base URL.
func (b *Broker) Issuer() string { return b.cfg.Issuer }

// JWKS is the published key set (RFC 7517 section 5).
func (b *Broker) JWKS() []byte { return b.cfg.Keys.JWKS(b.now()) }

// PolicyVersion names the policy set in force.
func (b *Broker) PolicyVersion() string { return b.cfg.Policy.Current().Version() }

// Nonces is nil when nonce mode is off (RFC 9449 section 8).
func (b *Broker) Nonces() *dpop.Nonces { return b.cfg.Nonces }

// DPoPAlgs are the algorithms a proof may use.
func (b *Broker) DPoPAlgs() []jose.Alg { return b.cfg.DPoPAlgs }
