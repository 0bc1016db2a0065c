package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-broker/ebb/attest"
	attestors "github.com/ebb-broker/ebb/attest/all"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/memstore"
	channels "github.com/ebb-broker/ebb/broker/notify/all"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/broker/policysource"
	"github.com/ebb-broker/ebb/broker/provider"
	providers "github.com/ebb-broker/ebb/broker/provider/all"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
)

// enrollKind is the attestor of tickets, which always exists.
const enrollKind = "enroll"

// openAttestors creates the configured attestors and returns all problems at
// once. It opens no connection, so that ebb starts also if an issuer is down.
func openAttestors(s settings, issuer string, ring *keys.Ring, liveStore broker.LiveStore, fetched func(fetch.Event)) (map[string]attest.Attestor, error) {
	nonces, err := attest.NewNonces(ring.Derive("attest-nonce"))
	if err != nil {
		return nil, err
	}
	list := s.Attestors
	if !slices.ContainsFunc(list, func(a config.Attestor) bool { return a.Kind == enrollKind }) {
		list = append([]config.Attestor{{Name: enrollKind, Kind: enrollKind}}, list...)
	}
	env := attestors.Env{
		Issuer: issuer, Tickets: identity.Tickets{Gate: liveStore}, MaxTask: s.Limits.MaxTaskTTL, Logger: s.Log,
		Nonces: nonces, Fetched: fetched, Now: s.Now,
		Keys: func(h jose.Header) (jose.Key, error) { return ring.KeySource(s.Now())(h) },
	}
	out := map[string]attest.Attestor{}
	var ps config.Problems
	for _, a := range list {
		if a.Name == "" || a.Kind == "" {
			continue // Load has reported it
		}
		made, err := attestors.Open(a.Name, a.Kind, a.Config, env)
		if err != nil {
			ps = append(ps, config.Problem{Key: "attestors, " + a.Name, Wrong: err.Error(), Remedy: "correct its kind or config; kinds are " + strings.Join(attestors.Kinds(), ", ")})
			continue
		}
		if r, knows := made.(attest.Reattester); knows && a.Reattest != 0 {
			if err := r.CheckReattest(); err != nil {
				ps = append(ps, config.Problem{Key: "attestors, " + a.Name, Wrong: err.Error(), Remedy: "remove reattest and on_missed_attestation"})
			}
		}
		out[a.Name] = made
	}
	if len(ps) > 0 {
		return nil, ps
	}
	return out, nil
}

// livenessOf returns the liveness settings by attestor.
func livenessOf(list []config.Attestor) map[string]broker.Liveness {
	out := map[string]broker.Liveness{}
	for _, a := range list {
		if l := (broker.Liveness{OnSandboxExit: broker.Action(a.OnSandboxExit), Reattest: a.Reattest, OnMissedAttestation: broker.Action(a.OnMissedAttestation)}); l != (broker.Liveness{}) {
			out[a.Name] = l
		}
	}
	return out
}

// headersOf returns the evidence headers by attestor.
func headersOf(list []config.Attestor) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		if a.Header != "" {
			out[a.Name] = a.Header
		}
	}
	return out
}

// countFetches registers the metrics of requests to key servers and similar
// places. Place names come from the configuration, so their number is bounded.
func countFetches(r prometheus.Registerer) func(fetch.Event) {
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ebb_fetch_seconds", Help: "Duration of requests of attestors to key servers and other places, by place and status; 0 is no response.",
		Buckets: []float64{.005, .02, .1, .5, 1, 2, 5},
	}, []string{"place", "status"})
	r.MustRegister(took)
	return func(e fetch.Event) {
		took.WithLabelValues(e.Place, strconv.Itoa(e.Status)).Observe(e.Took.Seconds())
	}
}

// openProviders creates the configured providers and returns all problems at
// once. With a nil database they are only checked: no key is created.
func openProviders(s settings, issuer string, ring *keys.Ring, store broker.Store, secrets *secretstore.Store) (map[string]broker.Provider, error) {
	list := s.Providers
	if len(list) == 0 {
		list = []config.Provider{{
			Name: config.LocalProvider, Kind: "jwt", Resource: issuer + localPath,
			Words: provider.Words{Reversible: []string{"create", "update", "write"}}, // so that not every first write of a trial is of high risk
		}}
	}
	out := map[string]broker.Provider{}
	var ps config.Problems
	for _, p := range list {
		if p.Name == "" || p.Kind == "" {
			continue // Load has reported it
		}
		env := providers.Env{Name: p.Name, Issuer: issuer, Keys: ring, Logger: s.Log, Now: s.Now}
		if secrets != nil {
			env.Secrets = secrets
		}
		if store != nil {
			env.Dir, env.Ended = sshDir(s.Config, p.Name), endedOf(store, p.Name)
		}
		driver, err := providers.New(p.Kind, env, p.Config)
		if err != nil {
			ps = append(ps, config.Problem{Key: "providers, " + p.Name, Wrong: err.Error(), Remedy: "correct its kind or config; kinds are " + strings.Join(providers.Kinds(), ", ")})
			continue
		}
		out[p.Name] = broker.Provider{Driver: driver, Kind: p.Kind, Resource: p.Resource, MaxTTL: p.MaxTTL, Parallel: p.Parallel, MaxLive: p.MaxLive, Words: p.Words}
	}
	if len(ps) > 0 {
		return nil, ps
	}
	return out, nil
}

// kindProblems creates every attestor, provider and channel only to check their
// configuration. It opens no connection.
func kindProblems(c config.Config) (config.Problems, error) {
	ring, err := passingRing(time.Now())
	if err != nil {
		return nil, err
	}
	liveStore := memstore.New(memstore.Config{})
	issuer := cmp.Or(c.PublicURL, defaultURL)
	check := settings{Config: c, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	_, aerr := openAttestors(check, issuer, ring, liveStore, nil)
	_, perr := openProviders(check, issuer, ring, nil, &secretstore.Store{})
	var ps config.Problems
	_, nerr := openChannels(c.Notify, channels.Env{})
	for _, err := range []error{aerr, perr, nerr} {
		if more, ok := errors.AsType[config.Problems](err); ok {
			ps = append(ps, more...)
		} else if err != nil {
			return nil, err
		}
	}
	return ps, liveStore.Close()
}

// passingRing returns a temporary key ring, which some kinds need to be
// created.
func passingRing(now time.Time) (*keys.Ring, error) {
	signer, err := client.NewKey(jose.ES256)
	if err != nil {
		return nil, err
	}
	key, err := keys.NewKey(signer, now, now, now.Add(time.Hour))
	if err != nil {
		return nil, err
	}
	return keys.NewRing(keys.Policy{}, make([]byte, 32), key)
}

// checkConfig loads the configuration and has every attestor and provider kind
// check its own options. It returns all problems at once.
func (c *cli) checkConfig() (config.Config, error) {
	cfg, err := c.loadConfig()
	ps, ok := errors.AsType[config.Problems](err)
	if err != nil && !ok {
		return cfg, err
	}
	more, err := kindProblems(cfg)
	if err != nil {
		return cfg, err
	}
	if ps = append(ps, more...); len(ps) > 0 {
		return cfg, ps
	}
	return cfg, nil
}

// principals returns the configured principals for the broker, or the local
// ones if none is configured.
func principals(s settings, issuer string) ([]broker.PrincipalConfig, error) {
	if len(s.Config.Principals) == 0 && len(s.Principals) == 0 {
		return localPrincipals(s.Config, issuer)
	}
	out := s.Principals
	for _, p := range s.Config.Principals {
		pc := broker.PrincipalConfig{
			Principal: broker.Principal{ID: p.ID, Roles: p.Roles, Groups: p.Groups, Audiences: p.Audiences}, Keys: p.Keys,
		}
		if !p.Scopes.Empty() {
			pc.Bounds = []scopes.Set{p.Scopes}
		}
		if p.Attestor != "" {
			pc.Match = &broker.Match{Attestor: p.Attestor, Selectors: p.Selectors}
		}
		out = append(out, pc)
	}
	return out, nil
}

// highRiskQuorum is the default number of approvals of a request of
// high risk: two, or one if each request has only one possible approver. Else a
// machine with one approver could approve no request of high risk.
func highRiskQuorum(people []broker.PrincipalConfig, many bool) int {
	if many { // an identity provider authenticates approvers, so their number is unknown
		return 2
	}
	n, runs := 0, 0 // approvers; 1 if one of them may run the task, and then cannot approve its requests
	for _, p := range people {
		if !p.Has(broker.RoleApprover) {
			continue
		}
		if n++; p.Match != nil { // every identity that matches
			n++
		}
		if p.Has(broker.RoleRunner) {
			runs = 1
		}
	}
	return min(max(n-runs, 1), 2)
}

// openPolicies loads the policies of a server.
func openPolicies(ctx context.Context, s settings, store policyStore) (*policysource.Source, error) {
	c := policysource.Config{Dir: s.Policy, Store: store, Log: s.Log, Now: s.Now}
	if c.Dir == nil && s.PolicyDir != "" {
		c.Dir = os.DirFS(s.PolicyDir)
	}
	if s.PolicySource == config.PolicyDatabase {
		c.Releases = store
	}
	src, err := policysource.Open(ctx, c)
	switch {
	case err == nil:
		return src, nil
	case policyset.Problems(err) != nil && s.PolicyDir != "":
		return nil, usage(err.Error(), "`ebb policy check "+s.PolicyDir+"` checks the policies without starting ebb")
	case policyset.Problems(err) != nil:
		return nil, fail("this version of ebb cannot parse the published policies: "+err.Error(), "start the version that published them, and publish policies that both versions accept")
	case c.Releases != nil:
		return nil, fail("read the published policies: "+err.Error(), "check the database")
	}
	return nil, fail("read the policies: "+err.Error(), "check policy_dir (EBB_POLICY_DIR)")
}

// policyStore stores both the audit log and the published policies.
type policyStore interface {
	broker.Store
	broker.PolicyReleases
}
