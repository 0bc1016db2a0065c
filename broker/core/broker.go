package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/durability"
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/issuance"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/liveness"
	"github.com/ebb-broker/ebb/broker/policyadmin"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provideradmin"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/broker/revocation"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Broker is the facade of the core: it connects the areas and offers their methods. Its methods
// are safe for concurrent use and return *Error.
//
// Each area owns its state and reaches the others through the fields of its own struct; none
// has the Broker.
type Broker struct {
	cfg    Config
	shared *shared

	*kernel.Kernel
	*identity.Identity
	*issuance.Issuance
	*approval.Approval
	*revocation.Revocation
	*durability.Durability
	*liveness.Liveness
	*report.Report
	*policyadmin.PolicyAdmin
	*provideradmin.ProviderAdmin
}

// New makes a broker and refills the live store from the database. When it returns, the state
// in the database is in force.
func New(ctx context.Context, c Config) (*Broker, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c.Limits = c.Limits.WithDefaults()
	c.BreakGlass = c.BreakGlass.WithDefaults()
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if len(c.DPoPAlgs) == 0 {
		c.DPoPAlgs = []jose.Alg{jose.ES256, jose.EdDSA, jose.Ed25519}
	}
	s, err := newShared(&c)
	if err != nil {
		return nil, err
	}
	b := allocate(c, s)
	b.connect()
	if err := b.ReadClock(ctx); err != nil {
		return nil, err
	}
	if err := b.OpenMarks(ctx); err != nil {
		return nil, err
	}
	pending, err := b.ReadPending()
	if err != nil {
		return nil, err
	}
	b.shared.live.Losses.Store(c.LiveStore.Losses())
	if err := b.Refill(ctx); err != nil {
		return nil, fmt.Errorf("refilling the live store from the database: %w", err)
	}
	b.PayPending(ctx, pending)
	if err := b.cfg.Store.Append(ctx, broker.Record{Entries: []audit.Entry{
		b.NewEntry(audit.BrokerStarted, kernel.Self, map[string]any{"policy": b.PolicyVersion(), "issuer": b.cfg.Issuer}),
	}}); err != nil {
		return nil, fmt.Errorf("recording the start: %w", err)
	}
	return b, nil
}

// Issuer returns the public base URL.
func (b *Broker) Issuer() string { return b.cfg.Issuer }

// JWKS returns the published key set (RFC 7517 section 5).
func (b *Broker) JWKS() []byte { return b.cfg.Keys.JWKS(b.Now()) }

// PolicyVersion returns the version of the policy set in force.
func (b *Broker) PolicyVersion() string { return b.cfg.Policy.Current().Version() }

// DPoPAlgs returns the algorithms that a proof may use.
func (b *Broker) DPoPAlgs() []jose.Alg { return b.cfg.DPoPAlgs }

// Config holds the dependencies of New. Every member without a default is required.
type Config struct {
	Issuer        string // public base URL, byte-identical to the iss of every token
	LiveStore     broker.LiveStore
	Store         broker.Store
	ApprovalStore broker.ApprovalStore
	Policy        *policy.Live
	Policies      broker.PolicyStore // drafts and releases; nil = none
	// PolicySource is the origin of Policy; required with Policies.
	PolicySource policyadmin.PolicySource
	Attestors    map[string]attest.Attestor
	Liveness     map[string]broker.Liveness // by the attestor's name
	// EvidenceHeaders are, by the attestor's name, the HTTP headers in which a platform's
	// egress sends evidence; all other attestors take it from the body.
	EvidenceHeaders map[string]string
	Providers       map[string]broker.Provider
	Principals      []broker.PrincipalConfig
	// ACRValues are the strengths of sign-in (acr) with which people may approve; empty = any.
	ACRValues    []string
	Keys         *keys.Ring
	Marks        map[string]broker.MarkStore // stores of high-water marks, by their names; nil = no marks
	KeyDirectory durability.KeyDirectory     // the keys of Keys, to record them in the audit log; nil = they are not recorded
	KnownKeys    jose.KeySet                 // public keys of every signing key, to verify marks
	Sealer       broker.Sealer               // required when a provider is a third party
	Instance     string                      // 8 hex digits that name this installation at providers; "" = from Issuer
	Secrets      *secretstore.Store          // the operator's secrets; nil = none
	Egress       bool                        // an egress proxy runs: credentials that are only injected may be requested
	Transcripts  *transcript.Store           // of requests through egress; nil = none
	Nonces       *dpop.Nonces                // nil = no nonce mode
	DPoPAlgs     []jose.Alg                  // nil = ES256, EdDSA
	Limits       broker.Limits
	PendingEnds  string                    // file for pending ends that no store has accepted; "" = only in memory
	PresenceFrom risk.Level                // lowest risk at which approvals need Verdict.Present; "" = high
	BreakGlass   approval.BreakGlassConfig // people with the right to approve alone in an emergency; zero = none
	Now          func() time.Time          // nil = time.Now
	Steady       func() time.Duration      // a clock that is never set; nil = the monotonic one of Now
	Logger       *slog.Logger              // nil = discard
	Registerer   prometheus.Registerer     // nil = none
}

func (c *Config) check() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New("broker: "+what))
		}
	}
	u, err := url.Parse(c.Issuer)
	need(err == nil && u.IsAbs() && u.Host != "" && u.RawQuery == "" && u.Fragment == "", "Issuer must be an absolute URL without query and fragment")
	need(c.LiveStore != nil && c.Store != nil && c.ApprovalStore != nil, "LiveStore, Store and ApprovalStore are required")
	need(c.Policy != nil && c.PolicySource != nil && c.Keys != nil, "Policy, PolicySource and Keys are required")
	need(c.Instance == "" || provider.Name(c.Instance, broker.LeasePrefix+strings.Repeat("0", 32)) != "", "Instance must be 8 hex digits")
	need(c.Limits.TicketTTL <= time.Minute, "Limits.TicketTTL must be at most 60 s")
	for name, p := range c.Providers {
		need(p.Driver != nil && p.Resource != "", "provider "+name+" needs a driver and a resource")
		need(p.Driver == nil || !p.Driver.Traits().ThirdParty && !p.Driver.Traits().Seals || c.Sealer != nil, "provider "+name+" mints at a third party: a Sealer is required")
		_, injects := p.Driver.(provider.Injector)
		need(p.Driver == nil || !p.Driver.Traits().Credentialless || p.Driver.Traits().InjectOnly, "provider "+name+" declares that it adds nothing to requests, and issues credentials")
		need(p.Driver == nil || !p.Driver.Traits().InjectOnly || injects, "provider "+name+" declares that its credentials are only injected, and cannot inject them")
		need(p.Parallel >= 0 && p.MaxLive >= 0, "provider "+name+": Parallel and MaxLive must not be negative")
		need(p.Resource != c.Issuer+kernel.ApiPath, "provider "+name+" must not use the broker's own resource")
	}
	for name, l := range c.Liveness {
		_, known := c.Attestors[name]
		need(known, "liveness of "+name+", which is not a configured attestor")
		if err := l.Check(name); err != nil {
			errs = append(errs, err)
		}
	}
	for name, header := range c.EvidenceHeaders {
		_, known := c.Attestors[name]
		need(known && name != broker.EnrollName, "evidence header of "+name+", which is not a configured attestor that can take evidence from a header")
		need(!slices.ContainsFunc(c.Principals, func(p broker.PrincipalConfig) bool { return p.Match != nil && p.Match.Attestor == name }), "evidence header of "+name+", which recognises principals")
		if err := identity.CheckEvidenceHeader(header); err != nil {
			errs = append(errs, fmt.Errorf("broker: evidence header of %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
