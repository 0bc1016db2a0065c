package spiffe_test

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ebb-broker/ebb/attest/spiffe"
)

// agent is the half of a SPIFFE agent that gives bundles.
type agent struct {
	workload.UnimplementedSpiffeWorkloadAPIServer
	certs, keys atomic.Pointer[map[string][]byte] // by trust domain; nil: hangs
	denied      atomic.Bool
}

func (a *agent) give(ctx context.Context, m *atomic.Pointer[map[string][]byte], send func(map[string][]byte) error) error {
	md, _ := metadata.FromIncomingContext(ctx)
	if a.denied.Load() || len(md.Get("workload.spiffe.io")) != 1 {
		return status.Error(codes.PermissionDenied, "no identity issued")
	}
	if b := m.Load(); b != nil {
		return send(*b)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (a *agent) FetchX509Bundles(_ *workload.X509BundlesRequest, s grpc.ServerStreamingServer[workload.X509BundlesResponse]) error {
	return a.give(s.Context(), &a.certs, func(b map[string][]byte) error { return s.Send(&workload.X509BundlesResponse{Bundles: b}) })
}

func (a *agent) FetchJWTBundles(_ *workload.JWTBundlesRequest, s grpc.ServerStreamingServer[workload.JWTBundlesResponse]) error {
	return a.give(s.Context(), &a.keys, func(b map[string][]byte) error { return s.Send(&workload.JWTBundlesResponse{Bundles: b}) })
}

func (a *agent) set(f *fixture, names ...string) {
	certs, keys := map[string][]byte{}, map[string][]byte{}
	for _, x := range []*authority{f.home, f.away} {
		for _, name := range names {
			if name == x.td.Name() {
				certs[x.td.IDString()] = x.cert.Raw
				b, err := x.bundle().JWTBundle().Marshal()
				if err != nil {
					x.t.Fatal(err)
				}
				keys[x.td.IDString()] = b
			}
		}
	}
	a.certs.Store(&certs)
	a.keys.Store(&keys)
}

func TestWorkloadAPI(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	socket := filepath.Join(t.TempDir(), "a.sock")
	from := func() *spiffe.Attestor { return f.from(t, spiffe.TrustDomain{WorkloadAPI: "unix://" + socket}) }
	f.want(t, "no agent", from(), unjudged)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	a, server := &agent{}, grpc.NewServer()
	workload.RegisterSpiffeWorkloadAPIServer(server, a)
	go server.Serve(l) //nolint:errcheck // ends with Stop
	defer server.Stop()

	a.set(f, home, away)
	good := from()
	f.want(t, "an agent that federates", good, accepted)
	a.set(f, away)
	f.want(t, "an agent of another trust domain", from(), unjudged)
	a.set(f, home)
	a.denied.Store(true)
	f.want(t, "an agent without an entry for ebb", from(), unjudged)
	a.denied.Store(false)
	junk := map[string][]byte{"spiffe://" + home: []byte("junk")}
	a.certs.Store(&junk)
	f.want(t, "junk", from(), unjudged)
	a.set(f, home)
	b, err := f.home.bundle().JWTBundle().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	junk = map[string][]byte{"spiffe://" + home: bytes.Replace(b, []byte(`"kty":`), []byte(`"d":"`+strings.Repeat("A", 43)+`","kty":`), 1)}
	a.keys.Store(&junk)
	f.want(t, "a private key", from(), unjudged)
	a.set(f, home)
	leafCert := map[string][]byte{"spiffe://" + home: f.home.svid(leaf(boxID))[0]}
	a.certs.Store(&leafCert)
	f.want(t, "an authority that is none", from(), unjudged)

	f.clock.Advance(6 * time.Minute)
	f.want(t, "the last good bundle serves", good, accepted)
	a.set(f, home)
	f.clock.Advance(time.Minute)
	f.want(t, "and a new one", from(), accepted)
	server.Stop()
	f.clock.Advance(6 * time.Minute)
	f.want(t, "the agent is gone", good, accepted)
}
