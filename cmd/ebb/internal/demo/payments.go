package demo

import (
	"context"
	"crypto/rand"
	"crypto/tls"
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

	"github.com/ebb-broker/ebb/broker/egress"
)

// PaymentsProvider is the name of the provider for Payments.
const PaymentsProvider = "payments"

// PaymentsSecret is the name of its key in ebb's secret store.
const PaymentsSecret = "payments-key"

// PaymentsName is the host name that sandboxes use.
const PaymentsName = "payments.example.com"

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
	ca, err := egress.NewCA("the tour", time.Now().Add(time.Hour), []string{PaymentsName}, nil)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return &Payments{Host: net.JoinHostPort(PaymentsName, port), key: "pk_live_" + rand.Text(), ca: ca, listener: l}, err
}

// Close closes the listener of an API that did not serve.
func (p *Payments) Close() error { return p.listener.Close() }

// Options is the configuration of its provider.
func (p *Payments) Options() []byte {
	return fmt.Appendf(nil, `{"secret": %q, "hosts": [%q], "inject": {"header": "Authorization", "prefix": "Bearer "},
		"grants": {"charges": {"read": {"methods": ["GET"], "paths": ["/v1/charges/**"]}}}}`, PaymentsSecret, p.Host)
}

// Environ returns the variables by which ebb reaches and trusts the API. The
// files that they name are written to dir.
func (p *Payments) Environ(dir string) ([]string, error) {
	file := filepath.Join(dir, "payments-ca.pem")
	if err := os.WriteFile(file, p.ca.PEM(), 0o600); err != nil {
		return nil, err
	}
	return []string{"EBB_EGRESS_CA_FILE=" + file, "EBB_EGRESS_PRIVATE_HOSTS=" + PaymentsName + "=127.0.0.1/32"}, nil
}

// LookupNetIP implements egress.Resolver, because no name server knows the
// host.
func (p *Payments) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if strings.TrimSuffix(host, ".") == PaymentsName {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, network, host)
}

// serve serves the API until ctx is done.
func (p *Payments) serve(ctx context.Context) error {
	leaf, err := p.ca.Leaf(PaymentsName)
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
