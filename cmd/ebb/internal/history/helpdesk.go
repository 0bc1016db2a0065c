package history

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Helpdesk is an OAuth 2.0 authorization server with its own client
// registration: it mints (RFC 6749 section 4.4), revokes (RFC 7009) and
// introspects tokens (RFC 7662), until breakDown is called.
type Helpdesk struct {
	URL    string
	Secret string
	server *http.Server

	mu     sync.Mutex
	alive  map[string]bool
	broken bool
}

// ClientID is ebb's client ID at the helpdesk.
const ClientID = "ebb"

// OpenHelpdesk starts a helpdesk on a free port of loopback.
func OpenHelpdesk(ctx context.Context) (*Helpdesk, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the helpdesk: %w", err)
	}
	h := &Helpdesk{URL: "http://" + l.Addr().String(), Secret: rand.Text(), alive: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", h.client(h.token))
	mux.HandleFunc("POST /revoke", h.client(h.revoke))
	mux.HandleFunc("POST /introspect", h.client(h.introspect))
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = h.server.Serve(l) }()
	return h, nil
}

// Close stops the server.
func (h *Helpdesk) Close() error { return h.server.Close() }

// breakDown makes the helpdesk refuse to revoke, like a third party that is
// down.
func (h *Helpdesk) breakDown() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = true
}

// client accepts requests that authenticate as ebb (RFC 6749 section 2.3.1).
func (h *Helpdesk) client(then func(http.ResponseWriter, url.Values)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, secret, ok := r.BasicAuth()
		if !ok || id != ClientID || secret != h.Secret || r.ParseForm() != nil {
			http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		then(w, r.PostForm)
	}
}

func (h *Helpdesk) token(w http.ResponseWriter, f url.Values) {
	if f.Get("grant_type") != "client_credentials" {
		http.Error(w, `{"error":"unsupported_grant_type"}`, http.StatusBadRequest)
		return
	}
	token := rand.Text()
	h.mu.Lock()
	h.alive[token] = true
	h.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 1800, "scope": f.Get("scope")})
}

func (h *Helpdesk) revoke(w http.ResponseWriter, f url.Values) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken {
		http.Error(w, `{"error":"temporarily_unavailable"}`, http.StatusServiceUnavailable)
		return
	}
	delete(h.alive, f.Get("token"))
}

func (h *Helpdesk) introspect(w http.ResponseWriter, f url.Values) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"active": h.alive[f.Get("token")]})
}
