package main

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/web/api"
)

// sshDriver is the part of an SSH provider that the API needs.
type sshDriver interface {
	Authorities() ([]byte, error)
	KRL(ctx context.Context) (krl.List, error)
	KnownHosts(h stricturl.Host) (lines []byte, known bool)
}

// sshHosts implements api.SSHHosts for all SSH providers.
type sshHosts map[string]sshDriver

// sshOf returns the SSH providers, nil without one.
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

// Authorities implements api.SSHHosts. With several providers name is required:
// a host that trusted the CA of the wrong provider would accept its
// certificates.
func (h sshHosts) Authorities(name string) ([]byte, error) {
	d, err := h.named(name)
	if err != nil {
		return nil, err
	}
	b, err := d.Authorities()
	if err != nil {
		return nil, unavailable("Reading the CA keys failed.", err)
	}
	return b, nil
}

// named returns a provider by its name; "" = the only one.
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
func (h sshHosts) KnownHosts(name string, host stricturl.Host) ([]byte, error) {
	d, err := h.named(name)
	if err != nil {
		return nil, err
	}
	lines, known := d.KnownHosts(host)
	if !known {
		return nil, broker.E(broker.NotFound, "This provider has no such host. Ask its operator to add it to hosts of its group.", nil)
	}
	return lines, nil
}

// KRL implements api.SSHHosts. A host that trusts several CAs needs a single
// list, so the default is that of all providers.
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
			return nil, unavailable("Creating the revocation list failed. Keep the current list.", err)
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

// endedOf lists the leases of a provider that ebb already refuses and that
// expire after a given time.
func endedOf(j broker.Store, name string) func(context.Context, time.Time, func(provider.Target) error) error {
	return func(ctx context.Context, after time.Time, yield func(provider.Target) error) error {
		for _, state := range []broker.LeaseState{broker.LeaseRevoking, broker.LeaseRevoked, broker.LeaseUnconfirmed} {
			if err := endedIn(ctx, j, broker.LeaseFilter{Provider: name, State: state, ExpiresAfter: after}, yield); err != nil {
				return err
			}
		}
		return nil
	}
}

func endedIn(ctx context.Context, j broker.Store, f broker.LeaseFilter, yield func(provider.Target) error) error {
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

// sshDir is the directory of a provider's CA keys. It is beside the signing
// keys, which replicas share and backups contain.
func sshDir(c config.Config, name string) string {
	return filepath.Join(c.Signing.KeysDir, "ssh", name)
}
