package email

import "github.com/ebb-broker/ebb/broker/notify"

// Compose returns the mail that Send delivers.
func (s *Sender) Compose(m notify.Message) []byte { return s.compose(m, s.to) }
