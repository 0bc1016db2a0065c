package console

import "github.com/ebb-broker/ebb/broker/people"

// NonceFor returns the nonce of a form at this path in the session of this
// cookie. Tests use it to send forms that no page shows to the sender.
func (s *Console) NonceFor(cookie, path string) string {
	return s.nonce(&visit{session: people.Session{ID: hashOf(cookie)}}, path)
}
