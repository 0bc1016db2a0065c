package keys

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
)

// An id that begins with "-" would be a flag on the command line.
func TestIDsAreNoFlags(t *testing.T) {
	t.Parallel()
	for range 2000 {
		s, err := generate(jose.EdDSA)
		if err != nil {
			t.Fatal(err)
		}
		if kid, err := jose.Thumbprint(s.Public()); err != nil || strings.HasPrefix(kid, "-") {
			t.Fatal(kid, err)
		}
	}
}
