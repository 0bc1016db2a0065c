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

	"ebb/attest/dpop"
	"ebb/broker"
	"ebb/broker/egress"
	"ebb/broker/keys"
	"ebb/broker/notifier"
	"ebb/broker/policysource"
	"ebb/broker/provider"
	"ebb/broker/safe"
	"ebb/broker/seal"
	"ebb/broker/sqlstore"
	"ebb/broker/transcript"
	"ebb/cmd/ebb/internal/config"
	"ebb/web"
	"ebb/web/api"
	"ebb/web/console"
	"ebb/web/signin/link"
)

// nonceSlice is how long a DPoP nonce is handed out (RFC 9449 section 8).
const nonceSlice = 5 * time.Minute

// settings are what wire needs besides the configuration.
type settings struct {
	config.Config
	Log    *slog.Logger
	Tracer trace.TracerProvider // nil = no traces
	// Principals are added to the configured ones.
	Principals []broker.PrincipalConfig
	// Policy overrides the policy directory; nil = as configured.
	Policy fs.FS
	// Now is the clock of everything that keeps or compares times; nil = time.Now.
	Now func() time.Time
	// Resolver finds the hosts that sandboxes go to; nil = the machine's.
	Resolver egress.Resolver
}

// node is one ebb: everything that runs in one process. Its parts are closed in
// the opposite order of their making.
type node struct {
	url      string
	pages    string // where people see the console
	log      *slog.Logger
	now      func() time.Time
	listener net.Listener
	socket   net.Listener // nil = none
	server   *http.Server
	stop     context.CancelFunc // ends requests that wait: long polls, control connections
	broker   *broker.Broker
	journal  *sqlstore.Store
	links    *link.Links // nil = none are made
	dir      *keys.Dir
	policies *policysource.Source
	ssh      api.SSHHosts      // nil = no SSH provider
	runners  []provider.Runner // providers that look after something
	sealing  *seal.Ring        // nil = nothing to seal
	safe     *safe.Safe        // nil with it
	closers  []func() error

	notifier    *notifier.Notifier // nil = nobody is told of anything
	tellsPeople bool               // by an address of their own

	boxes       *egress.Boxes     // nil = no egress
	transcripts *transcript.Store // nil = there are none
}

// wire makes the whole object graph, from the bottom to the top. When it
// returns, the ledger knows what the journal knows, and nothing listens yet
// but on a port that the system chose.
func wire(ctx context.Context, s settings) (_ *node, err error) {
	if s.Now == nil {
		s.Now = time.Now
	}
	n := &node{log: s.Log, now: s.Now}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()

	// The ground: a directory that is ours alone, and the address.
	if err := n.openData(s.Config); err != nil {
		return nil, err
	}
	if n.url, err = n.address(ctx, s.Config); err != nil {
		return nil, err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

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
	if err := n.door(ctx, s, mux); err != nil {
		return nil, err
	}
	return n, nil
}

// core makes the broker and all that it stands on.
func (n *node) core(ctx context.Context, s settings, metrics *prometheus.Registry) (err error) {
	// The database, which knows what keys there were; the keys, and what derives from them.
	journal, err := n.openJournal(ctx, s.Config, metrics)
	if err != nil {
		return err
	}
	n.journal = journal
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

	ledger, err := n.openLedger(ctx, s.Config, metrics)
	if err != nil {
		return err
	}

	// Who decides, who vouches, what mints, who may do what.
	if n.policies, err = openPolicies(ctx, s, journal); err != nil {
		return err
	}
	attestors, err := openAttestors(s, n.url, ring, ledger, countFetches(metrics))
	if err != nil {
		return err
	}
	sealer, err := n.openSealer(ctx, s.Config, journal)
	if err != nil {
		return err
	}
	providers, err := openProviders(s, n.url, ring, journal, n.safe)
	if err != nil {
		return err
	}
	n.ssh = sshOf(providers)
	for _, p := range providers {
		if r, ok := p.Driver.(provider.Runner); ok {
			n.runners = append(n.runners, r)
		}
	}
	people, err := principals(s)
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
	// The broker compares the database with its high-water marks, then refills the ledger, before it returns.
	n.broker, err = broker.New(ctx, broker.Config{
		Issuer: n.url, Ledger: ledger, Journal: journal, Desk: journal, Policy: n.policies.Live(), Policies: journal, PolicySource: n.policies, Attestors: attestors, Liveness: livenessOf(s.Attestors), EvidenceHeaders: headersOf(s.Attestors), Providers: providers,
		Principals: people, ACRValues: s.Console.OIDC.ACRValues, Keys: ring, Marks: markStores(n.dir, s.Signing.KeysDir, ledger), KnownKeys: known, KeyDirectory: n.dir, Sealer: sealer, Safe: n.safe, Egress: s.Egress.Enabled, Transcripts: n.transcripts, Instance: s.Instance, Nonces: nonces, Limits: limits, BreakGlass: breakGlass(s.Console), PresenceFrom: presenceFrom(s.Console), Logger: s.Log, Registerer: metrics, Now: s.Now, PendingEnds: filepath.Join(s.DataDir, pendingFile),
	})
	if loss, is := errors.AsType[*broker.LossError](err); is {
		return fail(loss.Error(), lossNext)
	}
	return err
}

// surfaces makes what speaks HTTP.
func (n *node) surfaces(s settings, metrics *prometheus.Registry) (*web.Mux, error) {
	proxies, err := web.ParseProxies(s.TrustedProxies)
	if err != nil {
		return nil, err
	}
	if n.pages, err = pagesURL(n.url, n.dir.Ring()); err != nil {
		return nil, err
	}
	if n.notifier, n.tellsPeople, err = openNotifier(s, n.pages, n.journal, metrics); err != nil {
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
	surface, err := api.New(api.Config{Broker: n.broker, Mux: mux, MCPCompat: s.MCPCompat, MutualTLS: s.TLS.Mutual(), SSH: n.ssh, Links: n.apiLinks(), Boxes: n.apiBoxes(), Now: s.Now})
	if err != nil {
		return nil, err
	}
	pages, err := console.New(console.Config{Broker: n.broker, Mux: mux, Sessions: n.journal, Passkeys: n.journal, Names: n.journal, Reach: n.journal, TellsPeople: n.tellsPeople, Key: n.dir.Ring().Derive("console"), Methods: methods, Friction: friction(s.Console), Now: s.Now})
	if err != nil {
		return nil, err
	}
	pages.Register()
	surface.Register()
	surface.RegisterProbes(mux, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux, nil
}
