package demo

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/verify"
)

// PaymentsProvider is the name of the provider for Payments.
const PaymentsProvider = "payments"

// paymentsSecret is the name of its key in ebb's secret store.
const paymentsSecret = "payments-key"

// paymentsName is the host name that sandboxes use.
const paymentsName = "payments.example.com"

// Payments is a third party's API over TLS with a single key. It carelessly
// writes the key of a request into its response.
type Payments struct {
	Host string // name and port

	key      string
	ca       *egress.CA
	listener net.Listener

	mu   sync.Mutex
	seen []sent
}

// sent is a request that Payments received.
type sent struct {
	path, query, authorization string
}

// OpenPayments listens on a free port of loopback.
func OpenPayments(ctx context.Context) (*Payments, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the payments API: %w", err)
	}
	ca, err := egress.NewCA("the tour", time.Now().Add(time.Hour), []string{paymentsName}, nil)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return &Payments{Host: net.JoinHostPort(paymentsName, port), key: "pk_live_" + rand.Text(), ca: ca, listener: l}, err
}

// Close closes the listener of an API that did not serve.
func (p *Payments) Close() error { return p.listener.Close() }

// Options is the configuration of its provider.
func (p *Payments) Options() []byte {
	return fmt.Appendf(nil, `{"secret": %q, "hosts": [%q], "inject": {"header": "Authorization", "prefix": "Bearer "},
		"grants": {"charges": {"read": {"methods": ["GET"], "paths": ["/v1/charges/**"]}}}}`, paymentsSecret, p.Host)
}

// Environ returns the variables by which ebb reaches and trusts the API. The
// files that they name are written to dir.
func (p *Payments) Environ(dir string) ([]string, error) {
	file := filepath.Join(dir, "payments-ca.pem")
	if err := os.WriteFile(file, p.ca.PEM(), 0o600); err != nil {
		return nil, err
	}
	return []string{"EBB_EGRESS_CA_FILE=" + file, "EBB_EGRESS_PRIVATE_HOSTS=" + paymentsName + "=127.0.0.1/32"}, nil
}

// LookupNetIP implements egress.Resolver, because no name server knows the
// host.
func (p *Payments) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if strings.TrimSuffix(host, ".") == paymentsName {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, network, host)
}

// serve serves the API until ctx is done.
func (p *Payments) serve(ctx context.Context) error {
	leaf, err := p.ca.Leaf(paymentsName)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(p.handle), ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*leaf}},
	}
	go func() { _ = server.ServeTLS(p.listener, "", "") }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

func (p *Payments) handle(w http.ResponseWriter, r *http.Request) {
	by := r.Header.Get("Authorization")
	p.mu.Lock()
	p.seen = append(p.seen, sent{r.URL.Path, r.URL.RawQuery, by})
	p.mu.Unlock()
	if by != "Bearer "+p.key {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = fmt.Fprintf(w, "%s by %s\n", r.URL.Path, by)
	if r.URL.Path != followPath {
		return
	}
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
		if _, err := fmt.Fprintln(w, "tick"); err != nil {
			return
		}
	}
}

// arrived returns the requests received so far.
func (p *Payments) arrived() []sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]sent(nil), p.seen...)
}

// Shop is a resource server with orders. A token of ebb with the scope of an
// order can read or write that order. Verification is that of web/verify.
type Shop struct {
	URL      string
	listener net.Listener
	verifier *verify.Verifier

	mu     sync.Mutex
	orders map[string]string
}

// OpenShop listens on a free port of loopback; its URL is the resource.
func OpenShop(ctx context.Context) (*Shop, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the shop: %w", err)
	}
	return &Shop{URL: "http://" + l.Addr().String(), listener: l, orders: map[string]string{"eu/42": "one lighthouse", "eu/43": "one buoy"}}, nil
}

// Close closes the listener of a shop that did not serve.
func (s *Shop) Close() error { return s.listener.Close() }

// need returns the scope that a request needs: /orders/eu/42 is orders:eu/42,
// with the action read or write by the method.
func need(r *http.Request) (scopes.Set, error) {
	id, ok := strings.CutPrefix(r.URL.Path, "/orders/")
	if !ok {
		return scopes.Set{}, errors.New("no such path")
	}
	action := "write"
	if r.Method == http.MethodGet {
		action = "read"
	}
	scope, err := scopes.New(Provider, id, action)
	if err != nil {
		return scopes.Set{}, err
	}
	return scopes.ParseSet(scope.String())
}

// serve serves the shop until ctx is done. It returns once the verifier has
// ebb's keys and revocations.
func (s *Shop) serve(ctx context.Context, issuer string, key jose.Signer, hc *http.Client) error {
	v, err := verify.New(verify.Config{
		Issuer: issuer, Resource: s.URL, RequireScopes: need, ClientID: Server, Key: key, MaxStaleness: 10 * time.Second,
		HTTP: hc, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("start the shop: %w", err)
	}
	s.verifier = v
	server := &http.Server{Handler: v.Middleware(http.HandlerFunc(s.handle)), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = v.Run(ctx) }()
	go func() { _ = server.Serve(s.listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	for end := time.Now().Add(30 * time.Second); v.Ready() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the shop is not ready within 30s: %w", v.Ready())
		}
	}
	return nil
}

func (s *Shop) handle(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, "/orders/")
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodGet {
		s.orders[id] = "changed"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"order": id, "what": s.orders[id]})
}
