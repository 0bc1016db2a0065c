package egress

import (
	"encoding/json"
	"net/http"
	"time"

	"ebb/broker/provider"
)

// boxPath is where a box asks what it is.
const boxPath = "/box"

// bootstrap is all that a helper in a box has to know, and nothing that is worth
// anything elsewhere.
type bootstrap struct {
	TaskID      string       `json:"task_id"`
	Tool        string       `json:"tool,omitempty"`
	ExpiresAt   time.Time    `json:"expires_at"`
	CA          string       `json:"ca"`
	Credentials []credential `json:"credentials"`
}

// credential is one that can be named where it belongs.
type credential struct {
	Placeholder string    `json:"placeholder"`
	Provider    string    `json:"provider"`
	Scopes      []string  `json:"scopes"`
	ExpiresAt   time.Time `json:"expires_at"`
	// Endpoint is where it opens sessions, as their password; absent, it is for requests.
	Endpoint *provider.Endpoint `json:"endpoint,omitempty"`
}

// tell answers what the box is and has.
func (b *box) tell(w http.ResponseWriter, r *http.Request) {
	if !b.free.tells.Allow() {
		b.refuse(w, r, deny(TooOften, nil))
		return
	}
	leases, err := b.p.cfg.Leases.Injectable(r.Context(), b.who)
	if err != nil {
		b.refuse(w, r, err)
		return
	}
	out := bootstrap{TaskID: b.who.TaskID, Tool: b.who.Tool, ExpiresAt: b.ca.notAfter.UTC(), CA: string(b.ca.PEM()), Credentials: []credential{}}
	for _, l := range leases {
		c := credential{Placeholder: Prefix + l.ID, Provider: l.Provider, ExpiresAt: l.ExpiresAt}
		if at, is := b.p.cfg.Leases.Endpoint(l); is {
			c.Endpoint = &at
		}
		for _, s := range l.Scopes.Scopes() {
			c.Scopes = append(c.Scopes, s.String())
		}
		out.Credentials = append(out.Credentials, c)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(out)
}
