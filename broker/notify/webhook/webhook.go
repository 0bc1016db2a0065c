package webhook

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/broker/notify"
)

// Sender is one webhook.
type Sender struct {
	post    notify.Post
	hmac    [][]byte
	ed25519 ed25519.PrivateKey // nil = none
	now     func() time.Time
}

var _ notify.Sender = (*Sender)(nil)

// Where implements notify.Sender.
func (s *Sender) Where() string { return s.post.Where() }

// Send implements notify.Sender.
func (s *Sender) Send(ctx context.Context, m notify.Message) (string, error) {
	text, err := body(m)
	if err != nil {
		return "", fmt.Errorf("%w: %w", notify.ErrRefused, err)
	}
	// The time of this attempt: receivers refuse old timestamps.
	at := s.now()
	return s.post.Do(ctx, http.Header{"Webhook-Id": {m.ID}, "Webhook-Timestamp": {stamp(at)}, "Webhook-Signature": {s.sign(m.ID, at, text)}}, text)
}
