package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ebb/attest"
	"ebb/attest/dpop"
	"ebb/attest/jose"
	"ebb/broker/keys"
	"ebb/broker/provider"
	"ebb/broker/risk"
	"ebb/broker/safe"
	"ebb/broker/transcript"
	"ebb/scopes/policy"
)

// Provider is a configured provider instance. Its name is the first part of
// every scope it serves.
type Provider struct {
	Driver   provider.Driver
	Kind     string         // kind of driver, e.g. "jwt"
	Resource string         // RFC 8707 resource URI, the aud of its tokens
	Words    provider.Words // of the operator, on what can be undone
	MaxTTL   time.Duration  // no credential lives longer; 0 = Limits.MaxTTL

	// Of third parties alone. Mints and revocations have as many calls each.
	Parallel int // calls at one time; 0 = 16
	MaxLive  int // credentials in no final state at one time; 0 = no bound. Replicas count every few seconds
}

// Config is what New needs. Every member without a default is required.
type Config struct {
	Issuer   string // public base URL, byte-identical to the iss of every token
	Ledger   Ledger
	Journal  Journal
	Desk     Desk
	Policy   *policy.Live
	Policies PolicyDesk // drafts and releases; nil = there are none
	// PolicySource says where Policy is from; required with Policies.
	PolicySource PolicySource
	Attestors    map[string]attest.Attestor
	Liveness     map[string]Liveness // by the attestor's name
	// EvidenceHeaders are, by the attestor's name, the HTTP headers that evidence
	// comes in where a platform's egress writes it; all others take it from the body.
	EvidenceHeaders map[string]string
	Providers       map[string]Provider
	Principals      []PrincipalConfig
	// ACRValues are the proofs at the identity provider with which somebody may approve; empty = any.
	ACRValues    []string
	Keys         *keys.Ring
	Marks        map[string]MarkStore // of high-water marks, by the name of the place; nil = none are kept
	KeyDirectory KeyDirectory         // names the keys of Keys on the audit log; nil = they are not named
	KnownKeys    jose.KeySet          // public keys of every signing key, which verify marks
	Sealer       Sealer               // required when a provider is a third party
	Instance     string               // 8 hex digits that name this installation at providers; "" = from Issuer
	Safe         *safe.Safe           // of the operator's secrets; nil = none
	Egress       bool                 // a proxy asks Use: what is only injected may be asked for
	Transcripts  *transcript.Store    // of requests through it; nil = there are none
	Nonces       *dpop.Nonces         // nil = no nonce mode
	DPoPAlgs     []jose.Alg           // nil = ES256, EdDSA
	Limits       Limits
	PendingEnds  string                // file for ends that no store has taken; "" = in memory alone
	PresenceFrom risk.Level            // approvals from this risk on need Verdict.Present; "" = high
	BreakGlass   BreakGlassConfig      // who may approve alone in an emergency; zero = nobody
	Now          func() time.Time      // nil = time.Now
	Steady       func() time.Duration  // a clock that nobody sets; nil = the monotonic one of Now
	Logger       *slog.Logger          // nil = discard
	Registerer   prometheus.Registerer // nil = none
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
	need(c.Ledger != nil && c.Journal != nil && c.Desk != nil, "Ledger, Journal and Desk are required")
	need(c.Policy != nil && c.PolicySource != nil && c.Keys != nil, "Policy, PolicySource and Keys are required")
	need(c.Instance == "" || provider.Name(c.Instance, leasePrefix+strings.Repeat("0", 32)) != "", "Instance must be 8 hex digits")
	need(c.Limits.TicketTTL <= time.Minute, "Limits.TicketTTL is at most 60 s")
	for name, p := range c.Providers {
		need(p.Driver != nil && p.Resource != "", "provider "+name+" needs a driver and a resource")
		need(p.Driver == nil || !p.Driver.Traits().ThirdParty && !p.Driver.Traits().Seals || c.Sealer != nil, "provider "+name+" mints at a third party: a Sealer is required")
		_, injects := p.Driver.(provider.Injector)
		need(p.Driver == nil || !p.Driver.Traits().Bare || p.Driver.Traits().InjectOnly, "provider "+name+" says that it adds nothing to requests, and hands something out")
		need(p.Driver == nil || !p.Driver.Traits().InjectOnly || injects, "provider "+name+" says that its credentials are only injected, and cannot inject them")
		need(p.Parallel >= 0 && p.MaxLive >= 0, "provider "+name+": Parallel and MaxLive must not be negative")
		need(p.Resource != c.Issuer+apiPath, "provider "+name+" must not use the broker's own resource")
	}
	for name, l := range c.Liveness {
		_, known := c.Attestors[name]
		need(known, "liveness of "+name+", which is no attestor")
		if err := l.check(name); err != nil {
			errs = append(errs, err)
		}
	}
	for name, header := range c.EvidenceHeaders {
		_, known := c.Attestors[name]
		need(known && name != enrollName, "evidence header of "+name+", which is no attestor whose platform could set one")
		need(!slices.ContainsFunc(c.Principals, func(p PrincipalConfig) bool { return p.Match != nil && p.Match.Attestor == name }), "evidence header of "+name+", which recognises principals")
		if err := CheckEvidenceHeader(header); err != nil {
			errs = append(errs, fmt.Errorf("broker: evidence header of %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
