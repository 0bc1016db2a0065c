package console

import (
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

// NonceFor returns the nonce of a form at this path in the session of this
// cookie. Tests use it to send forms that no page shows to the sender.
func (s *Console) NonceFor(cookie, path string) string {
	return s.shell.Nonce(&session.Visit{Session: people.Session{ID: session.HashOf(cookie)}}, path)
}
