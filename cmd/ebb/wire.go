package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/durability"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/notifier"
	"github.com/ebb-broker/ebb/broker/policysource"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/api"
	"github.com/ebb-broker/ebb/web/console"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/console/proof"
	"github.com/ebb-broker/ebb/web/signin"
	"github.com/ebb-broker/ebb/web/signin/link"
	"github.com/ebb-broker/ebb/web/signin/oidc"
)

// nonceSlice is how long the same DPoP nonce is issued (RFC 9449 section 8).
const nonceSlice = 5 * time.Minute

// settings are the configuration and further inputs of assemble.
type settings struct {
	config.Config
	Log    *slog.Logger
	Tracer trace.TracerProvider // nil = no traces
	// Principals are added to the configured principals.
	Principals []broker.PrincipalConfig
	// Policy replaces the policy directory; nil = as configured.
	Policy fs.FS
	// Now is the clock for all stored and compared times; nil = time.Now.
	Now func() time.Time
	// Resolver resolves the upstreams of sandboxes; nil = the machine's resolver.
	Resolver egress.Resolver
}

// node is one ebb: all components of one process. They are closed in the
// reverse order of their creation.
type node struct {
	url      string
	pages    string // URL of the console
	log      *slog.Logger
	now      func() time.Time
	listener net.Listener
	socket   net.Listener // nil = none
	server   *http.Server
	stop     context.CancelFunc // ends waiting requests: long polls, control connections
	broker   *core.Broker
	store    *sqlstore.Store
	links    *link.Links // nil = no sign-in links
	dir      *keys.Dir
	policies *policysource.Source
	ssh      api.SSHHosts       // nil = no SSH provider
	runners  []provider.Runner  // providers with background work
	sealing  *seal.Ring         // nil = no value to encrypt
	secrets  *secretstore.Store // nil if sealing is nil
	closers  []func() error
	metrics  *prometheus.Registry

	notifier    *notifier.Notifier // nil = no notifications
	tellsPeople bool               // a channel sends to people's mail addresses
	push        console.Push       // nil = no notifications in browsers

	endpoints   *egress.Endpoints // nil = no egress
	transcripts *transcript.Store // nil = no transcripts
}

// assemble creates the whole object graph, bottom to top. When it returns, live
// state is loaded from the database, and only a port chosen by the system is
// bound.
func assemble(ctx context.Context, s settings) (_ *node, err error) {
	if s.Now == nil {
		s.Now = time.Now
	}
	n := &node{log: s.Log, now: s.Now}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()

	// The basis: a directory that only this process uses, and the address.
	if err := n.openData(s.Config); err != nil {
		return nil, err
	}
	if n.url, err = n.address(ctx, s.Config); err != nil {
		return nil, err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	n.metrics = metrics

	if err := n.openTranscripts(s); err != nil {
		return nil, err
	}
	if err := n.core(ctx, s, metrics); err != nil {
		return nil, err
	}
	if err := n.openEgress(ctx, s); err != nil {
		return nil, err
	}
	mux, err := n.surfaces(s, metrics)
	if err != nil {
		return nil, err
	}
	if err := n.listen(ctx, s, mux); err != nil {
		return nil, err
	}
	return n, nil
}

// core creates the broker and its dependencies.
func (n *node) core(ctx context.Context, s settings, metrics *prometheus.Registry) (err error) {
	// The database, which knows the keys used before; then the keys and the
	// values derived from them.
	store, err := n.openDatabase(ctx, s.Config, metrics)
	if err != nil {
		return err
	}
	n.store = store
	if err := n.openKeys(ctx, s.Config); err != nil {
		return err
	}
	ring := n.dir.Ring()
	var nonces *dpop.Nonces
	if s.DPoP.Nonce == "on" {
		if nonces, err = dpop.NewNonces(ring.Derive("dpop-nonce"), nonceSlice); err != nil {
			return err
		}
	}

	liveStore, err := n.openLiveStore(ctx, s.Config, metrics)
	if err != nil {
		return err
	}

	// Policies, attestors, providers, principals.
	if n.policies, err = openPolicies(ctx, s, store); err != nil {
		return err
	}
	attestors, err := openAttestors(s, n.url, ring, liveStore, countFetches(metrics))
	if err != nil {
		return err
	}
	sealer, err := n.openSealer(ctx, s.Config, store)
	if err != nil {
		return err
	}
	providers, err := openProviders(s, n.url, ring, store, n.secrets)
	if err != nil {
		return err
	}
	n.ssh = sshOf(providers)
	for _, p := range providers {
		if r, ok := p.Driver.(provider.Runner); ok {
			n.runners = append(n.runners, r)
		}
	}
	people, err := principals(s, n.url)
	if err != nil {
		return err
	}

	limits := s.Limits
	if limits.HighRiskQuorum == 0 {
		limits.HighRiskQuorum = highRiskQuorum(people, s.Console.OIDC.Issuer != "" && len(s.Console.Roles.Approver) > 0)
	}

	known, err := knownKeys(n.dir)
	if err != nil {
		return err
	}
	// The broker compares the database with its high-water marks, and loads live
	// state, before New returns.
	n.broker, err = core.New(ctx, core.Config{
		Issuer: n.url, LiveStore: liveStore, Store: store, ApprovalStore: store, Policy: n.policies.Live(), Policies: store, PolicySource: n.policies, Attestors: attestors, Liveness: livenessOf(s.Attestors), EvidenceHeaders: headersOf(s.Attestors), Providers: providers,
		Principals: people, ACRValues: s.Console.OIDC.ACRValues, Keys: ring, Marks: markStores(n.dir, s.Signing.KeysDir, liveStore), KnownKeys: known, KeyDirectory: n.dir, Sealer: sealer, Secrets: n.secrets, Egress: s.Egress.Enabled, Transcripts: n.transcripts, Instance: s.Instance, Nonces: nonces, Limits: limits, BreakGlass: breakGlass(s.Console), PresenceFrom: presenceFrom(s.Console), Logger: s.Log, Registerer: metrics, Now: s.Now, PendingEnds: filepath.Join(s.DataDir, pendingFile),
	})
	if loss, is := errors.AsType[*durability.LossError](err); is {
		return fail(loss.Error(), lossNext)
	}
	return err
}

// surfaces creates the HTTP handlers.
func (n *node) surfaces(s settings, metrics *prometheus.Registry) (*web.Mux, error) {
	proxies, err := web.ParseProxies(s.TrustedProxies)
	if err != nil {
		return nil, err
	}
	if n.pages, err = pagesURL(n.url, n.dir.Ring()); err != nil {
		return nil, err
	}
	if err = n.openNotifier(s, metrics); err != nil {
		return nil, err
	}
	mux, err := web.New(web.Config{PublicURL: n.url, PagesURL: n.pages, Proxies: proxies, Logger: s.Log, Registerer: metrics, Tracer: s.Tracer, Now: s.Now})
	if err != nil {
		return nil, err
	}
	methods, err := n.signIn(s)
	if err != nil {
		return nil, err
	}
	surface, err := api.New(api.Config{Broker: n.broker, Mux: mux, MutualTLS: s.TLS.Mutual(), SSH: n.ssh, KeyMaxAge: n.dir.Ring().MaxAge(), Links: n.apiLinks(), EgressEndpoints: n.apiEndpoints(), Now: s.Now})
	if err != nil {
		return nil, err
	}
	pages, err := console.New(console.Config{Broker: n.broker, Mux: mux, Sessions: n.store, Passkeys: n.store, Names: n.store, Outbox: n.store, Reach: n.store, Rights: n.rights(s), Pushes: n.store, Push: n.push, TellsPeople: n.tellsPeople, Key: n.dir.Ring().Derive("console"), Methods: methods, Friction: friction(s.Console), Now: s.Now})
	if err != nil {
		return nil, err
	}
	pages.Register()
	surface.Register()
	surface.RegisterProbes(mux, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux, nil
}

// friction returns the configured proofs that an approval requires.
func friction(c config.Console) proof.Friction {
	return proof.Friction{Low: proof.Proof(c.Proof.Low), Medium: proof.Proof(c.Proof.Medium), High: proof.Proof(c.Proof.High)}
}

// presenceFrom returns the lowest risk at which console.proof requires a
// passkey of every approver. From this risk on the API accepts no approval,
// because it would bypass the passkey.
func presenceFrom(c config.Console) risk.Level {
	switch f := friction(c); proof.ProofPasskey {
	case f.Low:
		return risk.Low
	case f.Medium:
		return risk.Medium
	}
	return risk.High
}

// breakGlass configures approving alone in an emergency. Signatures of passkeys
// are checked like those of other decisions. If high risk requires a passkey,
// so does an emergency period.
func breakGlass(c config.Console) approval.BreakGlassConfig {
	g := c.BreakGlass
	g.Check, g.Passkey = passkey.Check, friction(c).High == proof.ProofPasskey
	return g
}

// signIn returns the sign-in methods of the console. Links authenticate the
// owner of a principal's key on this machine, so they exist only for a console
// on loopback.
func (n *node) signIn(s settings) (methods []signin.Method, err error) {
	if o := s.Console.OIDC; o.Issuer != "" {
		m, err := oidc.New(oidc.Config{
			Base: n.pages, Key: n.dir.Ring().Derive("console-oidc"), Name: o.Name, Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret(), Scopes: o.Scopes,
			GroupsClaim: o.GroupsClaim, NameClaim: o.NameClaim, SubjectClaim: o.SubjectClaim, ACRValues: o.ACRValues, Roles: s.Console.Roles.Groups(),
			Fetch: fetch.Config{Private: o.Private}, Now: s.Now, Logger: s.Log,
		})
		if err != nil {
			return nil, err
		}
		methods = append(methods, m)
	}
	if s.Loopback() {
		n.links = link.New(link.Config{Broker: n.broker, Base: n.pages, Key: n.dir.Ring().Derive("console-link"), Now: s.Now})
		methods = append(methods, n.links)
	}
	return methods, nil
}

// pagesURL returns the URL of the console of an ebb with this public URL.
func pagesURL(public string, ring *keys.Ring) (string, error) {
	return web.OwnName(public, ring.Derive("console-name"))
}

// apiLinks returns n.links, and an untyped nil if that is nil.
func (n *node) apiLinks() api.Links {
	if n.links == nil {
		return nil
	}
	return n.links
}
