package main

import (
	"encoding/json"
	"fmt"
	"time"

	"ebb/attest"
	attestors "ebb/attest/all"
	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/keys"
	providers "ebb/broker/provider/all"
	"ebb/cmd/ebb/internal/config"
)

// enrollKind is the attestor of tickets: the broker's own, and always there.
const enrollKind = "enroll"

// openAttestors makes the configured attestors, all problems at once. Nothing is
// connected to: an issuer that is down does not keep ebb from starting.
func openAttestors(s settings, issuer string, ring *keys.Ring, ledger broker.Ledger) (map[string]attest.Attestor, error) {
	list := s.Attestors
	if len(list) == 0 || list[0].Name != enrollKind {
		list = append([]config.Attestor{{Name: enrollKind, Kind: enrollKind}}, list...)
	}
	env := attestors.Env{
		Issuer: issuer, Tickets: broker.Tickets{Gate: ledger}, MaxTask: s.Limits.MaxTaskTTL, Logger: s.Log,
		Keys: func(h jose.Header) (jose.Key, error) { return ring.KeySource(time.Now())(h) },
	}
	out := map[string]attest.Attestor{}
	var ps config.Problems
	for i, a := range list {
		made, err := attestors.Open(a.Name, a.Kind, a.Config, env)
		if err != nil {
			ps = append(ps, config.Problem{Key: fmt.Sprintf("attestors[%d]", i), Where: a.Name, Wrong: err.Error(), Remedy: "correct its kind or config"})
			continue
		}
		out[a.Name] = made
	}
	if len(ps) > 0 {
		return nil, ps
	}
	return out, nil
}

// localProvider is what an ebb without configured providers mints with.
const localProvider = "local"

// openProviders makes the configured providers, all problems at once.
func openProviders(c config.Config, issuer string, ring *keys.Ring) (map[string]broker.Provider, error) {
	list := c.Providers
	if len(list) == 0 {
		list = []config.Provider{{Name: localProvider, Kind: "jwt", Resource: issuer + "/local"}}
	}
	out := map[string]broker.Provider{}
	var ps config.Problems
	for i, p := range list {
		var options map[string]any
		if len(p.Config) > 0 {
			if err := json.Unmarshal(p.Config, &options); err != nil {
				return nil, fmt.Errorf("config of provider %s: %w", p.Name, err)
			}
		}
		driver, err := providers.New(p.Kind, providers.Env{Issuer: issuer, Keys: ring}, options)
		if err != nil {
			ps = append(ps, config.Problem{Key: fmt.Sprintf("providers[%d]", i), Where: p.Name, Wrong: err.Error(), Remedy: "correct its kind or config"})
			continue
		}
		out[p.Name] = broker.Provider{Driver: driver, Kind: p.Kind, Resource: p.Resource, MaxTTL: p.MaxTTL}
	}
	if len(ps) > 0 {
		return nil, ps
	}
	return out, nil
}
