package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/owndir"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/api"
)

// boxShare is the share of all file descriptors that connections of sandboxes
// and to their upstreams may use. The rest is left to the API and the stores.
const boxShare = 0.25

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
		Leases: n.broker, Hosts: n.broker, Record: n.broker, Answers: n.broker, Untrusted: s.Egress.UntrustedHosts, RequestBytes: int64(s.Egress.RequestMiB) << 20, TaskBytes: int64(s.Egress.TaskMiB) << 20, Roots: roots, Logger: s.Log, Now: s.Now, Places: web.Conns(boxShare),
		TranscriptRules: s.Egress.TranscriptRules, Transcripts: n.transcripts,
		Dialer: &egress.Dialer{Resolver: s.Resolver, Private: s.Egress.Private(), Own: ownPlaces(listen)},
	})
	if err != nil {
		return err
	}
	dir, err := n.boxesDir(s.Config)
	if err != nil {
		return err
	}
	n.boxes, err = egress.NewEndpoints(egress.EndpointsConfig{Proxy: proxy, Runners: n.broker, Dir: dir, Key: n.dir.Ring().Derive("egress-ca"), Identity: broker.BoxIdentity(s.Egress.Identity), Remote: s.Egress.Remote, Logger: s.Log, Now: s.Now})
	if err != nil {
		return fail(err.Error(), "set egress.dir (EBB_EGRESS_DIR) to a directory that only ebb's user can write to")
	}
	n.closers = append(n.closers, n.boxes.Close)
	if err := n.boxes.Kernel(); err != nil {
		s.Log.WarnContext(ctx, "no egress endpoint can be opened for sandboxes on this machine: the kernel does not report the network namespace of a peer; use Linux 6.11 or newer, or egress.identity: socket", "error", err)
	}
	n.broker.Cut(n.boxes)
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

// boxesDir is the directory of the sockets of egress endpoints. A socket path
// is limited to about 100 bytes, so ebb uses a temporary directory if the data
// directory's path is too long.
func (n *node) boxesDir(c config.Config) (string, error) {
	dir := c.Egress.Dir
	if dir == "" {
		dir = filepath.Join(c.DataDir, "boxes")
	}
	if config.FitsSocket(dir) {
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "ebb-boxes-") // mode 0700
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

// apiBoxes returns n.boxes, and an untyped nil if that is nil.
func (n *node) apiBoxes() api.Boxes {
	if n.boxes == nil {
		return nil
	}
	return n.boxes
}
