package github

import (
	"fmt"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// A handle is the token itself, because GitHub revokes a token only for its holder. A value with a
// colon is a note in place of a token.
const (
	// handleAsked means that GitHub was called and the response is unknown. If a token exists, no
	// party holds it, and it lives until its expiry.
	handleAsked = "asked:"
	// handleNothing: it is certain that nothing was made.
	handleNothing = "nothing:"
)

// lifetime is how long GitHub lets every installation token live. There is no
// parameter for it.
const lifetime = time.Hour

// room is by how much more than that a token may seem to live, for clocks that differ.
const room = 5 * time.Minute

// tokenOf is the token of a lease. Without one, dead says whether it is certain
// that there is none that lives, and err why not.
func tokenOf(t provider.Target) (token secret.Secret, dead bool, err error) {
	switch {
	// No handle: GitHub was not asked, for handleAsked is saved before.
	case t.Handle.Empty(), t.Handle.Equal(secret.New(handleNothing)):
		return secret.Secret{}, true, nil
	case t.Handle.Equal(secret.New(handleAsked)):
		// However late it is: that it is over by then is the broker's to say, not GitHub's.
		return secret.Secret{}, false, fmt.Errorf("github: %w: nobody has what GitHub may have made", provider.ErrLost)
	}
	return t.Handle, false, nil
}

// acceptable reports whether s can be a token: RFC 6750's b64token, of a length
// that fits into a header. Nothing else is assumed of its form.
func acceptable(s string) bool {
	if len(s) == 0 || len(s) > 8<<10 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-._~+/=", r)
	}) < 0
}

// stateless reports whether a token is of the format that holds a JWT: those have
// dots, opaque ones have none.
func stateless(token string) bool { return strings.Contains(token, ".") }
