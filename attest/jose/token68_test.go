package jose_test

import (
	"regexp"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
)

// RFC 6750, section 2.1: b64token = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="
func TestIsToken68(t *testing.T) {
	t.Parallel()
	b64token := regexp.MustCompile(`\A[A-Za-z0-9._~+/-]+=*\z`)
	texts := []string{"", "=", "==", "a=", "a==", "a=b", "=a", "a b", "a\n", "\u00e4", "a\u212a"}
	for c := range 256 {
		texts = append(texts, string([]byte{byte(c)}), string([]byte{'a', byte(c)}), string([]byte{byte(c), 'a'}))
	}
	for _, text := range texts {
		if got, want := jose.IsToken68(text), b64token.MatchString(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
