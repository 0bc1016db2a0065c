package brokertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ebb/attest"
	"ebb/attest/dpop"
	"ebb/attest/enroll"
	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/keys"
	"ebb/broker/memstore"
	"ebb/broker/policysource"
	"ebb/broker/provider"
	"ebb/broker/provider/jwt"
	"ebb/broker/sqlstore"
	"ebb/broker/sqlstore/sqlstoretest"
	"ebb/broker/transcript"
)

// Names that every Env has.
const (
	Issuer    = "https://ebb.test"
	Orders    = "https://orders.test/" // resource of provider "orders"
	Mail      = "https://mail.test/"   // resource of provider "mail"
	Runner    = "ci"                   // runner
	Runner2   = "ci-2"                 // another runner
	Approver  = "ann"                  // approver of group approvers
	Second    = "bob"                  // another approver of group approvers
	Auditor   = "aud"                  // auditor
	Operator  = "ops"                  // operator, auditor, runner
	Operator2 = "ols"                  // another operator
	Server    = "orders-api"           // resource server of Orders
	Viewer    = "vic"                  // viewer
)

// Config changes what New builds. The zero value is a whole broker.
type Config struct {
	Ledger      broker.Ledger  // nil = memstore
	Journal     broker.Journal // nil = SQLite in a temporary directory; set both or none
	Desk        broker.Desk
	Policies    map[string][]byte // Cedar files; nil = the starter policy
	Published   bool              // policies are what is published, Policies until something is
	Attestors   map[string]attest.Attestor
	Liveness    map[string]broker.Liveness
	Headers     map[string]string          // evidence headers, by the attestor's name
	Providers   map[string]broker.Provider // besides orders and mail
	Words       provider.Words             // of the provider orders
	Sealer      broker.Sealer              // nil = a key of its own
	Limits      broker.Limits              // HighRiskQuorum: 0 = 1; what is counted against fatigue: 0 = 1000
	Logger      *slog.Logger               // nil = silent
	Issuer      string                     // "" = Issuer
	Egress      bool                       // what is only injected may be asked for
	Transcripts *transcript.Store          // of requests through egress; nil = there are none
	PendingEnds string                     // file for ends that no store has taken; "" = none
	Nonces      bool                       // nonce mode
	Start       time.Time
	Run         bool // run the janitor too
	RealTime    bool // the clock is the machine's
	Alg         jose.Alg
	Clock       *Clock // nil = one of its own
	BreakGlass  broker.BreakGlassConfig
	People      []broker.Principal // besides those that every Env has
	Marks       map[string]broker.MarkStore
	Keys        string // directory of the signing keys; "" = a temporary one
}

// Env is a broker and everybody who uses it.
type Env struct {
	Broker     *broker.Broker
	Config     broker.Config
	Clock      *Clock
	Keys       map[string]jose.Signer // of principals, by id
	Registry   *prometheus.Registry
	Ring       *keys.Ring
	Store      *sqlstore.Store // nil when Journal was given
	Issuer     string
	Principals map[string]broker.Principal
}

// NewKey makes a P-256 key.
func NewKey(t testing.TB) jose.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// New builds a broker.
func New(t testing.TB, c Config) *Env {
	t.Helper()
	if c.Clock == nil {
		c.Clock = &Clock{now: c.Start, real: c.RealTime}
	}
	e := &Env{Clock: c.Clock, Keys: map[string]jose.Signer{}, Registry: prometheus.NewRegistry(), Issuer: c.Issuer, Principals: map[string]broker.Principal{}}
	if e.Clock.now.IsZero() {
		e.Clock.now = time.Now().UTC().Truncate(time.Second)
	}
	if e.Issuer == "" {
		e.Issuer = Issuer
	}
	e.Ring = ring(t, c.Keys, c.Alg, e.Clock.Now())
	if c.Ledger == nil {
		c.Ledger = memstore.New(memstore.Config{Now: e.Clock.Now, Steady: e.Clock.Steady})
	}
	if c.Journal == nil {
		e.Store = OpenStore(t, filepath.Join(t.TempDir(), "ebb.db"), e.Clock.Now)
		c.Journal, c.Desk = e.Store, e.Store
	}
	if c.Limits.HighRiskQuorum == 0 {
		c.Limits.HighRiskQuorum = 1 // tests say what they want of it
	}
	for _, n := range []*int{&c.Limits.OwnerRequests, &c.Limits.DenialsInRow, &c.Limits.Denials, &c.Limits.Asks} {
		if *n == 0 {
			*n = 1000
		}
	}
	e.Config = e.config(t, c)
	b, err := broker.New(t.Context(), e.Config)
	if err != nil {
		t.Fatal(err)
	}
	e.Broker = b
	if c.Run {
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { _ = b.Run(ctx) })
		t.Cleanup(func() { cancel(); wg.Wait() })
	}
	return e
}

// OpenStore opens an embedded journal and desk.
func OpenStore(t testing.TB, path string, now func() time.Time) *sqlstore.Store {
	t.Helper()
	sqlstoretest.Schema(t, path)
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: "sqlite://" + path, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func ring(t testing.TB, dir string, alg jose.Alg, now time.Time) *keys.Ring {
	t.Helper()
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "keys")
	}
	d, err := keys.Open(keys.Config{Dir: dir, Policy: keys.Policy{Alg: alg}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return d.Ring()
}

func (e *Env) config(t testing.TB, c Config) broker.Config {
	t.Helper()
	source := policysource.Config{Journal: c.Journal, Log: slog.New(slog.DiscardHandler), Now: e.Clock.Now}
	if c.Policies != nil {
		dir := fstest.MapFS{}
		for name, text := range c.Policies {
			dir[name] = &fstest.MapFile{Data: text}
		}
		source.Dir = dir
	}
	desk, _ := c.Journal.(broker.PolicyDesk)
	if c.Published {
		source.Releases = desk
	}
	policies, err := policysource.Open(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	driver, err := jwt.New(jwt.Config{Issuer: e.Issuer, Keys: e.Ring})
	if err != nil {
		t.Fatal(err)
	}
	enr, err := enroll.New(enroll.Config{
		Name: "enroll", Issuer: e.Issuer, Keys: func(h jose.Header) (jose.Key, error) { return e.Ring.KeySource(e.Clock.Now())(h) },
		Tickets: broker.Tickets{Gate: c.Ledger}, Now: e.Clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	attestors := map[string]attest.Attestor{"enroll": enr}
	maps.Copy(attestors, c.Attestors)
	cfg := broker.Config{
		Issuer: e.Issuer, Ledger: c.Ledger, Journal: c.Journal, Desk: c.Desk, Policy: policies.Live(), PolicySource: policies, Policies: desk, Attestors: attestors, Liveness: c.Liveness, EvidenceHeaders: c.Headers,
		Providers: map[string]broker.Provider{
			"orders": {Driver: driver, Kind: "jwt", Resource: Orders, Words: c.Words},
			"mail":   {Driver: driver, Kind: "jwt", Resource: Mail, MaxTTL: 5 * time.Minute},
		},
		Principals: e.principals(t, c.People), Keys: e.Ring, Limits: c.Limits, BreakGlass: c.BreakGlass, Now: e.Clock.Now, Steady: e.Clock.Steady, Logger: slog.New(slog.DiscardHandler), Registerer: e.Registry,
		Egress: c.Egress, Transcripts: c.Transcripts, Marks: c.Marks, PendingEnds: c.PendingEnds,
	}
	var known []jose.Key
	for _, k := range e.Ring.Keys(e.Clock.Now()) {
		public, err := jose.NewKey(k.KID, k.Signer.Public())
		if err != nil {
			t.Fatal(err)
		}
		known = append(known, public)
	}
	if cfg.KnownKeys, err = jose.NewKeySet(known...); err != nil {
		t.Fatal(err)
	}
	maps.Copy(cfg.Providers, c.Providers)
	if c.Logger != nil {
		cfg.Logger = c.Logger
	}
	if cfg.Sealer = c.Sealer; cfg.Sealer == nil && len(c.Providers) > 0 {
		cfg.Sealer = Sealer(t, nil, e.Clock.Now)
	}
	if c.Nonces {
		if cfg.Nonces, err = dpop.NewNonces(e.Ring.Derive("dpop-nonce"), 5*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

func (e *Env) principals(t testing.TB, more []broker.Principal) []broker.PrincipalConfig {
	var out []broker.PrincipalConfig
	for _, p := range append([]broker.Principal{
		{ID: Runner, Roles: []broker.Role{broker.RoleRunner}},
		{ID: Runner2, Roles: []broker.Role{broker.RoleRunner}},
		{ID: Approver, Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}},
		{ID: Second, Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}},
		{ID: Auditor, Roles: []broker.Role{broker.RoleAuditor}},
		{ID: Operator, Roles: []broker.Role{broker.RoleOperator, broker.RoleAuditor, broker.RoleRunner}},
		{ID: Operator2, Roles: []broker.Role{broker.RoleOperator}},
		{ID: Server, Roles: []broker.Role{broker.RoleResourceServer}, Audiences: []string{Orders}},
		{ID: Viewer, Roles: []broker.Role{broker.RoleViewer}},
	}, more...) {
		s := NewKey(t)
		k, err := jose.NewKey("", s.Public())
		if err != nil {
			t.Fatal(err)
		}
		e.Keys[p.ID], e.Principals[p.ID] = s, p
		out = append(out, broker.PrincipalConfig{Principal: p, Keys: []jose.Key{k}})
	}
	return out
}
