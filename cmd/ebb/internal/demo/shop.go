package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"ebb/attest/jose"
	"ebb/scopes"
	"ebb/web/verify"
)

// Shop is a resource server: orders that can be read and written with a token
// of ebb for just that order. It knows of ebb what web/verify knows.
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
		return nil, fmt.Errorf("opening the shop: %w", err)
	}
	return &Shop{URL: "http://" + l.Addr().String(), listener: l, orders: map[string]string{"eu/42": "one lighthouse", "eu/43": "one buoy"}}, nil
}

// Close ends a shop that never served.
func (s *Shop) Close() error { return s.listener.Close() }

// need is the scope of one request: /orders/eu/42 is orders:eu/42, reading or
// writing by the method.
func need(r *http.Request) (scopes.Set, error) {
	id, ok := strings.CutPrefix(r.URL.Path, "/orders/")
	if !ok {
		return scopes.Set{}, errors.New("no such page")
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

// serve runs the shop until ctx is done. ready is closed once it knows ebb's
// keys and what is revoked.
func (s *Shop) serve(ctx context.Context, issuer string, key jose.Signer, hc *http.Client) error {
	v, err := verify.New(verify.Config{
		Issuer: issuer, Resource: s.URL, RequireScopes: need, ClientID: Server, Key: key, MaxStaleness: 10 * time.Second,
		HTTP: hc, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("the shop: %w", err)
	}
	s.verifier = v
	server := &http.Server{Handler: v.Middleware(http.HandlerFunc(s.handle)), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = v.Run(ctx) }()
	go func() { _ = server.Serve(s.listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	for end := time.Now().Add(30 * time.Second); v.Ready() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the shop does not get ready: %w", v.Ready())
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
