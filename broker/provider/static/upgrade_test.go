package static_test

import (
	"net/http"
	"testing"

	"ebb/broker/exact"
)

// TestUpgrades: (E97) a WebSocket is opened only by a rule that says so, at a host of the provider's,
// for its own requests.
func TestUpgrades(t *testing.T) {
	t.Parallel()
	c := config()
	c.Grants["charges"]["listen"] = exact.Rule{Methods: []string{"GET"}, Paths: []string{"/v1/live"}, WebSocket: true}
	d := driver(t, c, vaultOf(t, "stripe", canary))
	for _, tt := range []struct {
		scope, method, url string
		want               bool
	}{
		{"stripe:charges:listen", http.MethodGet, "https://api.example.com/v1/live", true},
		{"stripe:charges:read stripe:charges:listen", http.MethodGet, "https://api.example.com/v1/live", true},
		{"stripe:all:use", http.MethodGet, "https://api.example.com/v1/live", false},
		{"stripe:all:use stripe:charges:listen", http.MethodGet, "https://api.example.com/v1/charges", false},
		{"stripe:charges:listen", http.MethodPost, "https://api.example.com/v1/live", false},
		{"stripe:charges:listen", http.MethodGet, "https://other.example.com/v1/live", false},
		{"stripe:charges:listen", http.MethodGet, "https://api.example.com/v1/x/../live", false},
	} {
		if got := d.Upgrades(request(t, tt.method, tt.url), lease(tt.scope)); got != tt.want {
			t.Errorf("%s %s %s: %v", tt.scope, tt.method, tt.url, got)
		}
	}
}
