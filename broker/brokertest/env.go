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

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/enroll"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/memstore"
	"github.com/ebb-broker/ebb/broker/policysource"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/jwt"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
	"github.com/ebb-broker/ebb/broker/transcript"
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

// Config changes the broker that New builds. The zero value gives a complete broker.
type Config struct {
	LiveStore     broker.LiveStore // nil = memstore
	Store         broker.Store     // nil = SQLite in a temporary directory; set both or none
	ApprovalStore broker.ApprovalStore
	Policies      map[string][]byte // Cedar files; nil = the starter policy
	Published     bool              // policies come from published releases; Policies apply until the first one
	Attestors     map[string]attest.Attestor
	Liveness      map[string]broker.Liveness
	Headers       map[string]string          // evidence headers, by the attestor's name
	Providers     map[string]broker.Provider // besides orders and mail
	Words         provider.Words             // of the provider orders
	Sealer        broker.Sealer              // nil = a key of its own
	Limits        broker.Limits              // HighRiskQuorum: 0 = 1; limits of requests for approval: 0 = 1000
	Logger        *slog.Logger               // nil = silent
	Issuer        string                     // "" = Issuer
	Egress        bool                       // requests for inject-only credentials are allowed
	Transcripts   *transcript.Store          // of requests through egress; nil = none
	PendingEnds   string                     // file for closes and revocations that no store has accepted; "" = none
	Nonces        bool                       // nonce mode
	Start         time.Time
	Run           bool // run the janitor too
	RealTime      bool // the clock is the machine's
	Alg           jose.Alg
	Clock         *Clock // nil = one of its own
	BreakGlass    approval.BreakGlassConfig
	People        []broker.Principal // besides those that every Env has
	Marks         map[string]broker.MarkStore
	Keys          string // directory of the signing keys; "" = a temporary one
}

// Env is a broker with its stores and principals.
type Env struct {
	Broker     *core.Broker
	Config     core.Config
	Clock      *Clock
	Keys       map[string]jose.Signer // of principals, by id
	Registry   *prometheus.Registry
	Ring       *keys.Ring
	Store      *sqlstore.Store // nil when Store was given
	Issuer     string
	Principals map[string]broker.Principal
}

// NewKey returns a new P-256 key.
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
	if c.LiveStore == nil {
		c.LiveStore = memstore.New(memstore.Config{Now: e.Clock.Now, Steady: e.Clock.Steady})
	}
	if c.Store == nil {
		e.Store = OpenStore(t, filepath.Join(t.TempDir(), "ebb.db"), e.Clock.Now)
		c.Store, c.ApprovalStore = e.Store, e.Store
	}
	if c.Limits.HighRiskQuorum == 0 {
		c.Limits.HighRiskQuorum = 1 // tests set the quorum that they need
	}
	for _, n := range []*int{&c.Limits.OwnerRequests, &c.Limits.DenialsInRow, &c.Limits.Denials, &c.Limits.Asks} {
		if *n == 0 {
			*n = 1000
		}
	}
	e.Config = e.config(t, c)
	b, err := core.New(t.Context(), e.Config)
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

// OpenStore opens an embedded database store.
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

func (e *Env) config(t testing.TB, c Config) core.Config {
	t.Helper()
	source := policysource.Config{Store: c.Store, Log: slog.New(slog.DiscardHandler), Now: e.Clock.Now}
	if c.Policies != nil {
		dir := fstest.MapFS{}
		for name, text := range c.Policies {
			dir[name] = &fstest.MapFile{Data: text}
		}
		source.Dir = dir
	}
	releases, _ := c.Store.(broker.PolicyStore)
	if c.Published {
		source.Releases = releases
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
		Tickets: identity.Tickets{Gate: c.LiveStore}, Now: e.Clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	attestors := map[string]attest.Attestor{"enroll": enr}
	maps.Copy(attestors, c.Attestors)
	cfg := core.Config{
		Issuer: e.Issuer, LiveStore: c.LiveStore, Store: c.Store, ApprovalStore: c.ApprovalStore, Policy: policies.Live(), PolicySource: policies, Policies: releases, Attestors: attestors, Liveness: c.Liveness, EvidenceHeaders: c.Headers,
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
