package provider_test

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
)

// TestCheckHeader: a header for the destination, type or framing of a request cannot contain a
// credential.
//
//ebb:invariant I6 A configuration is refused if it adds a credential in a header for the destination, type or framing of a request
func TestCheckHeader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64)
	for _, tt := range []struct {
		name, prefix string
		ok           bool
	}{
		{"Authorization", "Bearer ", true}, {"authorization", "Token token=\"", true}, {"X-Api-Key", "", true}, {"Cookie", "session=", true}, {long, long, true},
		{"", "", false}, {long + "x", "", false}, {"X Y", "", false}, {"X_Y", "", false}, {"X:\r\nY", "", false}, {"-X", "", false}, {"X-\u212aey", "", false},
		{"X", " Bearer", false}, {"X", "a\r\nb: ", false}, {"X", "a\tb", false}, {"X", "\u00e9", false}, {"X", long + "x", false},
		{"Host", "", false}, {"Connection", "", false}, {"Content-Length", "", false}, {"Content-Type", "", false}, {"Content-Encoding", "", false}, {"Content-Range", "", false},
		{"Expect", "", false}, {"Keep-Alive", "", false}, {"Proxy-Authenticate", "", false}, {"Proxy-Authorization", "", false}, {"Proxy-Connection", "", false}, {"TE", "", false},
		{"Trailer", "", false}, {"Transfer-Encoding", "", false}, {"UPGRADE", "", false}, {"X-HTTP-Method-Override", "", false}, {"X-Forwarded-Host", "", false}, {"X-Original-URL", "", false},
	} {
		if err := provider.CheckHeader(tt.name, tt.prefix); (err == nil) != tt.ok {
			t.Errorf("%q, %q: %v", tt.name, tt.prefix, err)
		}
	}
}
