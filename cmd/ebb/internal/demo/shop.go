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

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/verify"
)

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
