package main

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ebb/attest"
	attestors "ebb/attest/all"
	"ebb/attest/fetch"
	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/keys"
	"ebb/broker/memstore"
	providers "ebb/broker/provider/all"
	"ebb/broker/safe"
	"ebb/cmd/ebb/internal/config"
	"ebb/web/client"
)

// enrollKind is the attestor of tickets: the broker's own, and always there.
const enrollKind = "enroll"

// openAttestors makes the configured attestors, all problems at once. Nothing is
// connected to: an issuer that is down does not keep ebb from starting.
func openAttestors(s settings, issuer string, ring *keys.Ring, ledger broker.Ledger, fetched func(fetch.Event)) (map[string]attest.Attestor, error) {
	nonces, err := attest.NewNonces(ring.Derive("attest-nonce"))
	if err != nil {
		return nil, err
	}
	list := s.Attestors
	if !slices.ContainsFunc(list, func(a config.Attestor) bool { return a.Kind == enrollKind }) {
		list = append([]config.Attestor{{Name: enrollKind, Kind: enrollKind}}, list...)
	}
	env := attestors.Env{
		Issuer: issuer, Tickets: broker.Tickets{Gate: ledger}, MaxTask: s.Limits.MaxTaskTTL, Logger: s.Log,
		Nonces: nonces, Fetched: fetched, Now: s.Now,
		Keys: func(h jose.Header) (jose.Key, error) { return ring.KeySource(s.Now())(h) },
	}
	out := map[string]attest.Attestor{}
	var ps config.Problems
	for _, a := range list {
		if a.Name == "" || a.Kind == "" {
			continue // Load has said so
		}
		made, err := attestors.Open(a.Name, a.Kind, a.Config, env)
		if err != nil {
			ps = append(ps, config.Problem{Key: "attestors, " + a.Name, Wrong: err.Error(), Remedy: "correct its kind or config; kinds are " + strings.Join(attestors.Kinds(), ", ")})
			continue
		}
		if r, knows := made.(attest.Reattester); knows && a.Reattest != 0 {
			if err := r.CheckReattest(); err != nil {
				ps = append(ps, config.Problem{Key: "attestors, " + a.Name, Wrong: err.Error(), Remedy: "leave out reattest, and on_lapse with it"})
			}
		}
		out[a.Name] = made
	}
	if len(ps) > 0 {
		return nil, ps
	}
	return out, nil
}

// livenessOf is what follows from the end of sandboxes, by attestor.
func livenessOf(list []config.Attestor) map[string]broker.Liveness {
	out := map[string]broker.Liveness{}
	for _, a := range list {
		if l := (broker.Liveness{OnDeath: broker.Sequel(a.OnDeath), Reattest: a.Reattest, OnLapse: broker.Sequel(a.OnLapse)}); l != (broker.Liveness{}) {
			out[a.Name] = l
		}
	}
	return out
}

// headersOf are the headers that evidence comes in, by attestor.
func headersOf(list []config.Attestor) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		if a.Header != "" {
			out[a.Name] = a.Header
		}
	}
	return out
}

// countFetches makes the metrics of requests to key servers and the like. The
// places are the configuration's.
func countFetches(r prometheus.Registerer) func(fetch.Event) {
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ebb_fetch_seconds", Help: "Requests to key servers and other places that attestors ask, by place and status; 0 is no answer.",
		Buckets: []float64{.005, .02, .1, .5, 1, 2, 5},
	}, []string{"place", "status"})
	r.MustRegister(took)
	return func(e fetch.Event) {
		took.WithLabelValues(e.Place, strconv.Itoa(e.Status)).Observe(e.Took.Seconds())
	}
}

// openProviders makes the configured providers, all problems at once. A nil
// journal means that they are only checked: no key is made.
func openProviders(s settings, issuer string, ring *keys.Ring, journal broker.Journal, secrets *safe.Safe) (map[string]broker.Provider, error) {
	list := s.Providers
	if len(list) == 0 {
		list = []config.Provider{{Name: config.LocalProvider, Kind: "jwt", Resource: issuer + "/local"}}
	}
	out := map[string]broker.Provider{}
	var ps config.Problems
	for _, p := range list {
		if p.Name == "" || p.Kind == "" {
			continue // Load has said so
		}
		env := providers.Env{Name: p.Name, Issuer: issuer, Keys: ring, Logger: s.Log, Now: s.Now}
		if secrets != nil {
			env.Safe = secrets
		}
		if journal != nil {
			env.Dir, env.Ended = sshDir(s.Config, p.Name), endedOf(journal, p.Name)
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

// kindProblems makes every attestor, provider and channel and throws them away: nothing
// is connected to.
func kindProblems(c config.Config) (config.Problems, error) {
	ring, err := passingRing(time.Now())
	if err != nil {
		return nil, err
	}
	ledger := memstore.New(memstore.Config{})
	issuer := cmp.Or(c.PublicURL, defaultURL)
	check := settings{Config: c, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	_, aerr := openAttestors(check, issuer, ring, ledger, nil)
	_, perr := openProviders(check, issuer, ring, nil, &safe.Safe{})
	var ps config.Problems
	_, nerr := openChannels(c.Notify)
	for _, err := range []error{aerr, perr, nerr} {
		if more, ok := errors.AsType[config.Problems](err); ok {
			ps = append(ps, more...)
		} else if err != nil {
			return nil, err
		}
	}
	return ps, ledger.Close()
}

// passingRing is a ring that signs nothing: kinds want one to be made.
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
