package main

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"ebb/broker"
	"ebb/broker/exact"
	"ebb/broker/provider"
	"ebb/broker/provider/ssh/krl"
	"ebb/cmd/ebb/internal/config"
	"ebb/web/api"
)

// sshDriver is what the surfaces need of a provider of kind ssh.
type sshDriver interface {
	Authorities() ([]byte, error)
	KRL(ctx context.Context) (krl.List, error)
	KnownHosts(h exact.Host) (lines []byte, known bool)
}

// sshHosts answers for every SSH provider: its hosts, and who connects to them.
type sshHosts map[string]sshDriver

// sshOf picks the SSH providers; nil without one.
func sshOf(all map[string]broker.Provider) api.SSHHosts {
	out := sshHosts{}
	for name, p := range all {
		if d, ok := p.Driver.(sshDriver); ok {
			out[name] = d
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Authorities implements api.SSHHosts. Which provider must be said where there are
// several: a host that trusted the CA of a second one by accident would let in
// its certificates.
func (h sshHosts) Authorities(name string) ([]byte, error) {
	d, err := h.named(name)
	if err != nil {
		return nil, err
	}
	b, err := d.Authorities()
	if err != nil {
		return nil, unavailable("The CA keys cannot be read.", err)
	}
	return b, nil
}

// named is a provider by its name; "" = the only one.
func (h sshHosts) named(name string) (sshDriver, error) {
	if name == "" && len(h) == 1 {
		name = slices.Collect(maps.Keys(h))[0]
	}
	d, known := h[name]
	switch {
	case name == "":
		return nil, broker.E(broker.Invalid, "There are several SSH providers: name one with ?provider=.", nil)
	case !known:
		return nil, noSSH()
	}
	return d, nil
}

// KnownHosts implements api.SSHHosts.
func (h sshHosts) KnownHosts(name string, host exact.Host) ([]byte, error) {
	d, err := h.named(name)
	if err != nil {
		return nil, err
	}
	lines, known := d.KnownHosts(host)
	if !known {
		return nil, broker.E(broker.NotFound, "This provider has no such host. Have its operator name it under hosts of its group.", nil)
	}
	return lines, nil
}

// KRL implements api.SSHHosts. A host that trusts several CAs needs one list: the
// default is that of all.
func (h sshHosts) KRL(ctx context.Context, name string) ([]byte, error) {
	asked := h
	if name != "" {
		d, known := h[name]
		if !known {
			return nil, noSSH()
		}
		asked = sshHosts{name: d}
	}
	var lists []krl.List
	for _, d := range asked {
		l, err := d.KRL(ctx)
		if err != nil {
			return nil, unavailable("The revocation list cannot be made now; keep the one you have.", err)
		}
		lists = append(lists, l)
	}
	all := krl.Join(lists...)
	return all.Marshal(), nil
}

func noSSH() error { return broker.E(broker.NotFound, "There is no such SSH provider.", nil) }

func unavailable(public string, cause error) error {
	e := broker.E(broker.Unavailable, public, cause)
	e.RetryAfter = 5 * time.Second
	return e
}

// endedOf lists the leases of a provider that ebb refuses already and that expire
// after a moment.
func endedOf(j broker.Journal, name string) func(context.Context, time.Time, func(provider.Target) error) error {
	return func(ctx context.Context, after time.Time, yield func(provider.Target) error) error {
		for _, state := range []broker.LeaseState{broker.LeaseRevoking, broker.LeaseRevoked, broker.LeaseUnconfirmed} {
			if err := endedIn(ctx, j, broker.LeaseFilter{Provider: name, State: state, ExpiresAfter: after}, yield); err != nil {
				return err
			}
		}
		return nil
	}
}

func endedIn(ctx context.Context, j broker.Journal, f broker.LeaseFilter, yield func(provider.Target) error) error {
	f.Now, f.Page.Limit = time.Now(), 1000
	for {
		page, err := j.Leases(ctx, f)
		if err != nil {
			return err
		}
		for _, l := range page {
			if err := yield(provider.Target{LeaseID: l.ID, TaskID: l.TaskID, Scopes: l.Scopes, IssuedAt: l.IssuedAt, ExpiresAt: l.ExpiresAt}); err != nil {
				return err
			}
		}
		if len(page) < f.Page.Limit {
			return nil
		}
		f.Page.After = page[len(page)-1].ID
	}
}

// sshDir is where a provider's CA keys are: beside the signing keys, which
// replicas share and backups hold.
func sshDir(c config.Config, name string) string {
	return filepath.Join(c.Signing.KeysDir, "ssh", name)
}
