package egress_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress"
)

// TestSignedRequests (E95): an AWS client uses the placeholder as its access key id. Its signature
// never reaches the upstream: the injector replaces it, and a request with an unreplaced one is
// refused.
func TestSignedRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(http.ResponseWriter, *http.Request) {})
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	c := x.client(t, false)
	const rest = "/20261122/eu-central-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=0123456789abcdef"
	for name, tt := range map[string]struct {
		auth string
		ok   bool
	}{
		"as clients do":     {"AWS4-HMAC-SHA256 Credential=" + p + rest, true},
		"without the rest":  {"AWS4-HMAC-SHA256 Credential=" + p, false},
		"two":               {"AWS4-HMAC-SHA256 Credential=" + p + rest + "," + p, false},
		"in the signature":  {"AWS4-HMAC-SHA256 Credential=AKIAMINE/20261122/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature=" + p, false},
		"of nothing":        {"AWS4-HMAC-SHA256 Credential=" + egress.Prefix + rest, false},
		"another algorithm": {"AWS4-ECDSA-P256-SHA256 Credential=" + p + rest, false},
		"no placeholder":    {"AWS4-HMAC-SHA256 Credential=AKIAMINE" + rest, false},
	} {
		before := len(b.arrived())
		res, body := send(t, c, "GET", "https://"+b.host+"/v1/charges", "", "Authorization", tt.auth)
		seen := b.arrived()
		if (res.StatusCode == http.StatusOK) != tt.ok || (len(seen) > before) != tt.ok {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
			continue
		}
		if tt.ok {
			if h := seen[len(seen)-1].Header; h.Get("Authorization") != "Bearer "+canary || strings.Contains(strings.Join(h["Authorization"], ""), "AWS4") {
				t.Errorf("%s: it arrived with %v", name, h)
			}
		}
	}
}
