package webhook

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/ebb-broker/ebb/broker/notify"
)

// Sender is one webhook.
type Sender struct {
	post    notify.Post
	hmac    []*standardwebhooks.Webhook
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
	header, err := s.sign(m.ID, s.now(), text) // the time of this attempt: receivers refuse old timestamps
	if err != nil {
		return "", fmt.Errorf("%w: %w", notify.ErrRefused, err)
	}
	return s.post.Do(ctx, header, text)
}

// sign returns the headers of Standard Webhooks, with one signature for each key. The library
// has no v1a (Ed25519).
func (s *Sender) sign(id string, at time.Time, body []byte) (http.Header, error) {
	var signatures []string
	for _, key := range s.hmac {
		text, err := key.Sign(id, at, body)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, text)
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	if s.ed25519 != nil {
		signed := append([]byte(id+"."+stamp+"."), body...)
		signatures = append(signatures, "v1a,"+base64.StdEncoding.EncodeToString(ed25519.Sign(s.ed25519, signed)))
	}
	h := http.Header{}
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, stamp)
	h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return h, nil
}
