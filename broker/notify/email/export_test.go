package email

import "ebb/broker/notify"

// Compose is the mail that Send hands over.
func (s *Sender) Compose(m notify.Message) []byte { return s.compose(m, s.to) }
