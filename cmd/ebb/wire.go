package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"ebb/attest/dpop"
	"ebb/broker"
	"ebb/broker/keys"
	"ebb/broker/provider"
	"ebb/broker/safe"
	"ebb/broker/seal"
	"ebb/cmd/ebb/internal/config"
	"ebb/web"
	"ebb/web/api"
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
}

// node is one ebb: everything that runs in one process. Its parts are closed in
// the opposite order of their making.
type node struct {
	url      string
	log      *slog.Logger
	listener net.Listener
	server   *http.Server
	stop     context.CancelFunc // ends requests that wait: long polls
	broker   *broker.Broker
	dir      *keys.Dir
	policies *policies
	ssh      api.SSHHosts      // nil = no SSH provider
	runners  []provider.Runner // providers that look after something
	sealing  *seal.Ring        // nil = nothing to seal
	safe     *safe.Safe        // nil with it
	closers  []func() error
}

// wire makes the whole object graph, from the bottom to the top. When it
// returns, the ledger knows what the journal knows, and nothing listens yet
// but on a port that the system chose.
func wire(ctx context.Context, s settings) (_ *node, err error) {
	n := &node{log: s.Log}
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

	if err := n.core(ctx, s, metrics); err != nil {
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
	// Keys, and what derives from them.
	kc := keysConfig(s.Config)
	kc.Log = s.Log
	if n.dir, err = keys.Open(kc); err != nil {
		return err
	}
	ring := n.dir.Ring()
	var nonces *dpop.Nonces
	if s.DPoP.Nonce == "on" {
		if nonces, err = dpop.NewNonces(ring.Derive("dpop-nonce"), nonceSlice); err != nil {
			return err
		}
	}

	// Stores.
	journal, err := n.openJournal(ctx, s.Config, metrics)
	if err != nil {
		return err
	}
	ledger, err := n.openLedger(ctx, s.Config, metrics)
	if err != nil {
		return err
	}

	// Who decides, who vouches, what mints, who may do what.
	if n.policies, err = openPolicies(s, journal); err != nil {
		return err
	}
	attestors, err := openAttestors(s, n.url, ring, ledger)
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

	// The broker refills the ledger before it returns.
	n.broker, err = broker.New(ctx, broker.Config{
		Issuer: n.url, Ledger: ledger, Journal: journal, Desk: journal, Policy: n.policies.live, Attestors: attestors, Providers: providers,
		Principals: people, Keys: ring, Sealer: sealer, Safe: n.safe, Instance: s.Instance, Nonces: nonces, Limits: s.Limits, Logger: s.Log, Registerer: metrics,
	})
	return err
}

// surfaces makes what speaks HTTP.
func (n *node) surfaces(s settings, metrics *prometheus.Registry) (*web.Mux, error) {
	proxies, err := web.ParseProxies(s.TrustedProxies)
	if err != nil {
		return nil, err
	}
	mux, err := web.New(web.Config{PublicURL: n.url, Proxies: proxies, Logger: s.Log, Registerer: metrics, Tracer: s.Tracer})
	if err != nil {
		return nil, err
	}
	surface, err := api.New(api.Config{Broker: n.broker, Mux: mux, MCPCompat: s.MCPCompat, MutualTLS: s.TLS.ClientCA != "", Policies: n.policies.files, SSH: n.ssh})
	if err != nil {
		return nil, err
	}
	surface.Register()
	surface.RegisterProbes(mux, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux, nil
}

// door makes the server and its listener.
func (n *node) door(ctx context.Context, s settings, h http.Handler) (err error) {
	n.server = web.NewServer(h, web.Limits{}, s.Log)
	if n.server.TLSConfig, err = serverTLS(s.TLS); err != nil {
		return err
	}
	requests, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	n.server.BaseContext = func(net.Listener) context.Context { return requests }
	if n.listener == nil {
		if n.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.Listen); err != nil {
			return fail("cannot listen: "+err.Error(), "stop what uses the address, or set listen (EBB_LISTEN)")
		}
	}
	if n.server.TLSConfig != nil {
		n.listener = tls.NewListener(n.listener, n.server.TLSConfig)
	}
	return nil
}

// address is the public URL. A port that the system chooses is bound at once,
// because the URL names it.
func (n *node) address(ctx context.Context, c config.Config) (string, error) {
	addr := c.Listen
	if _, port, err := net.SplitHostPort(c.Listen); err == nil && port == "0" {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
		if err != nil {
			return "", fail("cannot listen: "+err.Error(), "set listen (EBB_LISTEN) to an address of this machine")
		}
		n.listener, addr = l, l.Addr().String()
	}
	if c.PublicURL != "" {
		return c.PublicURL, nil
	}
	if c.TLS.Cert != "" {
		return "https://" + addr, nil
	}
	return "http://" + addr, nil
}

// close closes what was opened, last first.
func (n *node) close() error {
	var errs []error
	if n.stop != nil {
		n.stop()
	}
	for i := len(n.closers) - 1; i >= 0; i-- {
		errs = append(errs, n.closers[i]())
	}
	n.closers = nil
	if n.listener != nil {
		if err := n.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing: %w", err)
	}
	return nil
}
