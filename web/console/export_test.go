package console

import "ebb/broker/people"

// NonceFor is what a form at this path carries in the session of this cookie: a test sends
// forms that no page would draw for its sender.
func (s *Console) NonceFor(cookie, path string) string {
	return s.nonce(&visit{session: people.Session{ID: hashOf(cookie)}}, path)
}
