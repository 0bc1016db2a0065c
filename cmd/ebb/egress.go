package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/owndir"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/api"
)

// endpointShare is the share of all file descriptors that connections of sandboxes
// and to their upstreams may use. The rest is left to the API and the stores.
const endpointShare = 0.25

// openEgress creates the egress proxy and the manager of its endpoints.
func (n *node) openEgress(ctx context.Context, s settings) error {
	if !s.Egress.Enabled {
		return nil
	}
	roots, err := upstreamRoots(s.Egress.CAFile)
	if err != nil {
		return err
	}
	listen := s.Listen
	if n.listener != nil { // a port chosen by the system
		listen = n.listener.Addr().String()
	}
	proxy, err := egress.New(egress.Config{
		Leases: n.broker, Hosts: n.broker, Record: n.broker, Answers: n.broker, Untrusted: s.Egress.UntrustedHosts, RequestBytes: int64(s.Egress.RequestMiB) << 20, TaskBytes: int64(s.Egress.TaskMiB) << 20, Roots: roots, Logger: s.Log, Now: s.Now, Places: web.Conns(endpointShare),
		TranscriptRules: s.Egress.TranscriptRules, Transcripts: n.transcripts,
		Dialer: &egress.Dialer{Resolver: s.Resolver, Private: s.Egress.Private(), Own: ownPlaces(listen)},
	})
	if err != nil {
		return err
	}
	dir, err := n.endpointsDir(s.Config)
	if err != nil {
		return err
	}
	n.endpoints, err = egress.NewEndpoints(egress.EndpointsConfig{Proxy: proxy, Runners: n.broker, Dir: dir, Key: n.dir.Ring().Derive("egress-ca"), Identity: broker.EndpointIdentity(s.Egress.Identity), Remote: s.Egress.Remote, Logger: s.Log, Now: s.Now})
	if err != nil {
		return fail(err.Error(), "set egress.dir (EBB_EGRESS_DIR) to a directory that only ebb's user can write to")
	}
	n.closers = append(n.closers, n.endpoints.Close)
	if err := n.endpoints.Kernel(); err != nil {
		s.Log.WarnContext(ctx, "no egress endpoint can be opened for sandboxes on this machine: the kernel does not report the network namespace of a peer; use Linux 6.11 or newer, or egress.identity: socket", "error", err)
	}
	n.broker.Cut(n.endpoints)
	return nil
}

// openTranscripts opens the transcript store if rules are configured or the
// store exists. Without rules the transcripts of earlier rules can still be
// read and erased.
func (n *node) openTranscripts(s settings) error {
	dir := filepath.Join(s.DataDir, "transcripts")
	if _, err := os.Lstat(dir); err != nil && len(s.Egress.TranscriptRules) == 0 {
		return nil
	}
	store, err := transcript.Open(transcript.Config{Dir: dir, Bytes: int64(s.Egress.TranscriptsMiB) << 20, Keep: s.Egress.TranscriptsKeep, Now: s.Now})
	switch {
	case errors.Is(err, owndir.ErrShared):
		return fail(err.Error(), "make "+dir+" accessible to ebb's user only (mode 0700), or move it away; ebb then creates a new one")
	case err != nil:
		return fail(err.Error(), "check that "+dir+" can be read and written, and that its disk has free space")
	}
	n.transcripts = store
	n.closers = append(n.closers, store.Close)
	return nil
}

// endpointsDir is the directory of the sockets of egress endpoints. A socket path
// is limited to about 100 bytes, so ebb uses a temporary directory if the data
// directory's path is too long.
func (n *node) endpointsDir(c config.Config) (string, error) {
	dir := c.Egress.Dir
	if dir == "" {
		dir = filepath.Join(c.DataDir, "egress")
	}
	if config.FitsSocket(dir) {
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "ebb-egress-") // mode 0700
	if err != nil {
		return "", fail(err.Error(), "set egress.dir (EBB_EGRESS_DIR) to a short path")
	}
	n.closers = append(n.closers, func() error { return os.RemoveAll(dir) })
	return dir, nil
}

// upstreamRoots returns the CAs of this machine and those of file, or nil
// without a file: the machine's alone.
func upstreamRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("egress.ca_file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, usage("egress.ca_file: "+file+" contains no certificate", "write CA certificates to it, as PEM")
	}
	return pool, nil
}

// ownPlaces returns the addresses on which ebb listens itself. Egress never
// connects there, even if private_hosts allows it.
func ownPlaces(listen string) []netip.AddrPort {
	if ap, err := netip.ParseAddrPort(listen); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())}
	}
	return nil
}

// apiEndpoints returns n.endpoints, and an untyped nil if that is nil.
func (n *node) apiEndpoints() api.EgressEndpoints {
	if n.endpoints == nil {
		return nil
	}
	return n.endpoints
}

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
