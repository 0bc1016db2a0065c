package people_test

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/people"
)

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a", "ann", "ann@example.com", "o'neil+ebb@mail.example.co.uk", "team/x", "Bo Smith", "auth0|5f7c8ec7c33c6c004bbafe82", "sso:00u1abcd2EFGHIJKL3x7", "248289761001",
		"CN=Ann,OU=Staff,DC=example", "spiffe://example.org/ci", "repo:acme/web:ref:refs/heads/main", "{tenant}\\ann", strings.Repeat("a", 256),
	} {
		if err := people.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", " ", "ann ", " ann", "Bo  Smith", "ann\t", "ann\n", "a\x00", "ann\x7f", "\u0430nn", "\uff41nn", "a\u0301nn", "ann\u200b", "ann\u00a0", "J\u00f6rg", "a\xff", strings.Repeat("a", 257),
	} {
		if people.CheckName(name) == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

// TestSame: another spelling is the same person, and the empty name belongs to no person.
//
//ebb:invariant I7 Another spelling of a name identifies the same person, so it does not let an approver decide their own task's requests
func TestSame(t *testing.T) {
	t.Parallel()
	ann := []string{"sso:1", "Ann@Example.com", "ann smith"}
	for _, name := range []string{
		"sso:1", "SSO:1", "ann@example.com", "ANN@EXAMPLE.COM ", " ann@example.com", "\uff41nn@example.com", "ann\uff20example.com", "Ann  Smith", "ann\u00a0smith", "ann\u3000smith\t",
		"an\u200bn@example.com", "ann@example.com\ufe0f", "a\u00adnn smith", "sso:\u2081", "ann \u017fmith",
	} {
		if !people.Same(ann, []string{"x", name}) || !people.Same([]string{name}, ann) {
			t.Errorf("%q counts as another person", name)
		}
	}
	for _, name := range []string{"", " ", "\u200b", "ann", "ann@example.org", "annsmith", "sso:2", "ann@example.com.evil.test"} {
		if people.Same(append(ann, "", "\u2060"), []string{name}) {
			t.Errorf("%q is ann", name)
		}
	}
	// SQL compares the same spelling.
	for _, name := range []string{"Ann@Example.com", "Bo Smith", "{Tenant}\\ANN", "team/X"} {
		if got := people.Folded(name); got != strings.ToLower(name) {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}
