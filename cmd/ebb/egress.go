package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"ebb/broker"
	"ebb/broker/egress"
	"ebb/broker/owndir"
	"ebb/broker/transcript"
	"ebb/cmd/ebb/internal/config"
	"ebb/web"
	"ebb/web/api"
)

// boxShare is what connections of boxes, and those to upstreams for them, may take of all
// descriptors: the API and the stores have the rest.
const boxShare = 0.25

// openEgress makes the proxy that sandboxes get out by, and what opens boxes for it.
func (n *node) openEgress(ctx context.Context, s settings) error {
	if !s.Egress.Enabled {
		return nil
	}
	roots, err := upstreamRoots(s.Egress.CAFile)
	if err != nil {
		return err
	}
	listen := s.Listen
	if n.listener != nil { // a port that the system chose
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
	n.boxes, err = egress.NewBoxes(egress.BoxConfig{Proxy: proxy, Runners: n.broker, Dir: dir, Key: n.dir.Ring().Derive("egress-ca"), Identity: broker.BoxIdentity(s.Egress.Identity), Remote: s.Egress.Remote, Logger: s.Log, Now: s.Now})
	if err != nil {
		return fail(err.Error(), "set egress.dir (EBB_EGRESS_DIR) to a directory that only ebb's user can write to")
	}
	n.closers = append(n.closers, n.boxes.Close)
	if err := n.boxes.Kernel(); err != nil {
		s.Log.WarnContext(ctx, "no box of this machine can be opened: it does not say in which network namespace a peer is; it takes Linux 6.11, or egress.identity: socket", "error", err)
	}
	n.broker.Cut(n.boxes)
	return nil
}

// openTranscripts opens those that there are, or that rules want. Without rules those that are
// left of earlier ones are still read and erased.
func (n *node) openTranscripts(s settings) error {
	dir := filepath.Join(s.DataDir, "transcripts")
	if _, err := os.Lstat(dir); err != nil && len(s.Egress.TranscriptRules) == 0 {
		return nil
	}
	store, err := transcript.Open(transcript.Config{Dir: dir, Bytes: int64(s.Egress.TranscriptsMiB) << 20, Keep: s.Egress.TranscriptsKeep, Now: s.Now})
	switch {
	case errors.Is(err, owndir.ErrShared):
		return fail(err.Error(), "give "+dir+" to ebb's user alone, mode 0700, or move it away: it is made anew")
	case err != nil:
		return fail(err.Error(), "see that "+dir+" can be read and written, and that its disk has room")
	}
	n.transcripts = store
	n.closers = append(n.closers, store.Close)
	return nil
}

// boxesDir is where sockets of boxes are. The path of a socket is short, so that a data
// directory far down has its boxes in a temporary one.
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

// upstreamRoots are the CAs of this machine and those of a file; nil = the former alone.
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
		return nil, &failure{exitUsage, "egress.ca_file: " + file + " holds no certificate", "write CA certificates to it, as PEM"}
	}
	return pool, nil
}

// ownPlaces is where ebb itself listens, whatever private_hosts says of that address.
func ownPlaces(listen string) []netip.AddrPort {
	if ap, err := netip.ParseAddrPort(listen); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())}
	}
	return nil
}

// apiBoxes is n.boxes without a nil that is not nil.
func (n *node) apiBoxes() api.Boxes {
	if n.boxes == nil {
		return nil
	}
	return n.boxes
}
