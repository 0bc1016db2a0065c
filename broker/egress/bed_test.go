package egress_test

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// canary is the secret that no sandbox, log or response may contain.
const canary = "sk_canary_0123456789abcdef"

// bed is a broker with one injecting provider, an upstream, and a proxy between them.
type bed struct {
	*brokertest.Env
	cfg       egress.Config // of the proxy
	proxy     *egress.Proxy
	sandboxes *egress.Endpoints
	upstream  *httptest.Server
	host      string // name and port of the upstream
	secrets   *secretstore.Store
	names     *names
	log       *attesttest.Log

	mu   sync.Mutex
	seen []*http.Request
}

// newBed starts a bed. handle is the handler of the upstream; change adjusts the upstream before it
// starts.
func newBed(t *testing.T, handle http.HandlerFunc, change ...func(*httptest.Server)) *bed {
	t.Helper()
	return newBedOn(t, handle, func(*brokertest.Config) {}, change...)
}

// newBedOn is newBed with a broker that onto adjusts before it starts.
func newBedOn(t *testing.T, handle http.HandlerFunc, onto func(*brokertest.Config), change ...func(*httptest.Server)) *bed {
	t.Helper()
	return newBedOf(t, handle, func(*bed, *static.Config) {}, onto, change...)
}

// newBedOf is newBedOn with a provider whose configuration of adjusts.
func newBedOf(t *testing.T, handle http.HandlerFunc, of func(*bed, *static.Config), onto func(*brokertest.Config), change ...func(*httptest.Server)) *bed {
	t.Helper()
	b := &bed{log: &attesttest.Log{}}
	b.upstream = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.seen = append(b.seen, r.Clone(context.Background()))
		b.mu.Unlock()
		handle(w, r)
	}))
	b.upstream.EnableHTTP2 = true
	for _, c := range change {
		c(b.upstream)
	}
	b.upstream.StartTLS() // its certificate names example.com and *.example.com
	t.Cleanup(b.upstream.Close)
	at, err := netip.ParseAddrPort(b.upstream.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b.host = "api.example.com:" + strconv.Itoa(int(at.Port()))
	store := sqlstoretest.Open(t)
	b.secrets = secretstore.New(store, brokertest.Sealer(t, store, time.Now), nil)
	if err := b.secrets.Put(t.Context(), "stripe", secret.New(canary)); err != nil {
		t.Fatal(err)
	}
	config := static.Config{
		Secret: "stripe", Hosts: []string{b.host}, Inject: static.Place{Header: "Authorization", Prefix: "Bearer "},
		Grants: map[string]map[string]static.Rule{"charges": {
			"read":   {Rule: stricturl.Rule{Methods: []string{"GET", "HEAD"}, Paths: []string{"/v1/**"}}},
			"listen": {Rule: stricturl.Rule{Methods: []string{"GET"}, Paths: []string{"/ws/*"}, WebSocket: true}},
			"write":  {Rule: stricturl.Rule{Methods: []string{"POST"}, Paths: []string{"/v1/charges"}}},
		}},
	}
	of(b, &config)
	driver, err := static.Open("stripe", config, b.secrets, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := brokertest.Config{
		Egress: true, RealTime: true, Policies: map[string][]byte{"p.cedar": []byte(`@id("all") @why("all") permit (principal, action, resource) when { context.delivery == "egress" };`)},
		Providers: map[string]broker.Provider{"stripe": {Driver: driver, Kind: "static", Resource: "https://api.example.com/"}},
	}
	onto(&c)
	b.Env = brokertest.New(t, c)
	pool := x509.NewCertPool()
	pool.AddCert(b.upstream.Certificate())
	b.names = &names{answers: map[string][][]string{"api.example.com.": {{"127.0.0.1"}}, "www.example.com.": {{"127.0.0.1"}}}}
	b.cfg = egress.Config{
		Leases: b.Broker, Hosts: b.Broker, Record: b.Broker, Roots: pool, Logger: slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Dialer: &egress.Dialer{Resolver: b.names, Private: map[string][]netip.Prefix{"api.example.com": {netip.MustParsePrefix("127.0.0.1/32")}, "www.example.com": {netip.MustParsePrefix("127.0.0.1/32")}}},
	}
	b.proxy, err = egress.New(b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.sandboxes = b.openEndpoints(t, broker.EndpointBySocket)
	b.Broker.Cut(b.sandboxes)
	t.Cleanup(func() {
		if strings.Contains(b.log.String(), "canary") {
			t.Error("the log holds the secret")
		}
	})
	return b
}

// openEndpoints returns the Endpoints of a bed, with sockets at a short path.
func (b *bed) openEndpoints(t *testing.T, by broker.EndpointIdentity) *egress.Endpoints {
	t.Helper()
	dir, err := os.MkdirTemp("", "ebb-egress-")
	if err != nil {
		t.Fatal(err)
	}
	sandboxes, err := egress.NewEndpoints(egress.EndpointsConfig{Proxy: b.proxy, Runners: b.Broker, Dir: dir, Identity: by, PerTask: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sandboxes.Close(); err != nil {
			t.Error(err)
		}
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		if len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		_ = os.RemoveAll(dir)
	})
	return sandboxes
}

// arrived returns the requests that the upstream has received.
func (b *bed) arrived() []*http.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*http.Request(nil), b.seen...)
}
