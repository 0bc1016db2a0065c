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

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/people"
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

// emergency: a request needs two people of finance, and one is asleep. Tom
// begins an emergency period (break glass) for one request, and Eve reviews it.
func (s *stage) emergency() error {
	s.at(ago(2, 20))
	a, err := s.begin(task("return what was charged twice", "refund", "eva.berg", "billing:customers/**:*"))
	if err != nil {
		return err
	}
	r, err := a.ask("billing:customers/7001:refund", "billing-cli", "The card will be charged again at midnight unless this is returned.", 5*time.Minute)
	if err != nil {
		return err
	}
	s.later(6 * time.Minute)
	tom, _ := s.Broker.Principal(Tom)
	plan, token, err := s.Broker.PlanBreakGlass(tom, "INC-2041", "Sam is asleep, and the next charge is at midnight: it cannot wait for a second person.")
	if err != nil {
		return err
	}
	s.later(25 * time.Second)                  // tom proves his identity meanwhile
	now := s.Clock.Now().Truncate(time.Second) // as in the token of an identity provider
	session := people.Session{ID: rand.Text(), Act: rand.Text(), Person: tom.ID, Name: tom.ID, Purpose: plan.ID, AuthAt: now, GroupsAt: now, CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(8 * time.Hour)}
	if err := s.Sessions.AddSession(s.ctx, session); err != nil {
		return err
	}
	g, err := s.Broker.BeginBreakGlass(s.ctx, tom, token, approval.BreakGlassProof{AuthAt: now, For: plan.ID, Session: session.ID, SessionBegan: now, SessionEnds: session.ExpiresAt})
	if err != nil {
		return err
	}
	s.later(20 * time.Second)
	v := broker.Verdict{Approve: true, Digest: r.Digest, Target: target(r), Present: true, Presence: broker.Presence{By: "oidc", ProvedAt: now.UTC()}, BreakGlass: g.ID}
	if _, err := s.Broker.Decide(s.ctx, tom, r.ID, v); err != nil {
		return err
	}
	if err := a.take(); err != nil {
		return err
	}
	s.later(4 * time.Minute)
	if _, err := s.Broker.EndBreakGlass(s.ctx, tom, g.ID); err != nil {
		return err
	}
	if _, err := s.Sessions.EndSessions(s.ctx, tom.ID, session.ID); err != nil {
		return err
	}
	if err := a.complete(); err != nil {
		return err
	}
	s.later(50 * time.Minute)
	eve, _ := s.Broker.Principal(Auditor)
	_, err = s.Broker.ReviewBreakGlass(s.ctx, eve, g.ID, "One refund of 41.90 EUR, as the ticket says. Finance gets a third person on call.")
	return err
}
