package webpush

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	webpush "github.com/SherClockHolmes/webpush-go"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/people"
)

const (
	timeout  = 10 * time.Second // for one attempt at one browser
	keep     = time.Hour        // how long a push service stores a message for a browser that is offline
	maxItems = 5
	maxBody  = 3000 // bytes of JSON: a push service accepts messages of 4096 bytes
)

// payload is the message for the service worker.
type payload struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Tag   string `json:"tag"`  // a later message with the same tag takes the place of the earlier one
	Path  string `json:"path"` // of the page, below the public URL
}

func payloadOf(m notify.Message) ([]byte, error) {
	p := payload{Title: m.Heading(), Tag: m.ID, Path: strings.TrimPrefix(m.Page(), m.Base)}
	var lines []string
	for _, part := range m.Parts(maxItems) {
		if part.Heading != "" {
			lines = append(lines, part.Heading)
		}
		for _, l := range part.Lines {
			lines = append(lines, l.Label+": "+l.Text)
		}
	}
	for {
		p.Body = strings.Join(lines, "\n")
		b, err := json.Marshal(p)
		if b = agenttext.ASCIIJSON(b); err != nil || len(b) <= maxBody || len(lines) == 0 {
			return b, err
		}
		lines = lines[:len(lines)-1]
	}
}

// Send implements notify.Sender. It sends to all browsers of the person m.To at once, and
// succeeds if one of them accepts. It removes a browser that has ended its subscription.
func (s *Sender) Send(ctx context.Context, m notify.Message) (string, error) {
	if s.aead == nil {
		return "", fmt.Errorf("%w: only 'ebb serve' sends to browsers", notify.ErrRefused)
	}
	all, err := s.cfg.Store.Pushes(ctx, m.To)
	if err != nil {
		return "", err
	}
	text, err := payloadOf(m)
	if err != nil {
		return "", fmt.Errorf("%w: %w", notify.ErrRefused, err)
	}
	failed := make([]error, len(all))
	var wait sync.WaitGroup
	for i, p := range all {
		wait.Go(func() { failed[i] = s.push(ctx, p, text) })
	}
	wait.Wait()
	var accepted, gone int
	for _, err := range failed {
		switch {
		case err == nil:
			accepted++
		case errors.Is(err, notify.ErrGone):
			gone++
		}
	}
	switch {
	case accepted > 0:
		return fmt.Sprintf("%d of %d browsers", accepted, len(all)), nil
	case gone == len(all):
		return "", fmt.Errorf("%w: the person has no browser with a subscription", notify.ErrRefused)
	}
	return "", fmt.Errorf("%w: %s", notify.ErrAddress, errors.Join(failed...)) // %s: an ErrGone among them must not disable the channel
}

// push sends to one browser. ErrGone means that the browser's subscription was removed.
func (s *Sender) push(ctx context.Context, p people.Push, text []byte) error {
	sub, err := s.open(p)
	service, host := s.service(sub.Endpoint)
	if err != nil || service == "" { // sealed with lost keys, or the service is no longer permitted
		return s.remove(ctx, p)
	}
	turn, granted := s.breaker(host).Try(s.cfg.Now())
	if !granted {
		return fmt.Errorf("%s is paused after failures", service)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := webpush.SendNotificationWithContext(ctx, text, &sub, &webpush.Options{
		HTTPClient: s.client, Subscriber: s.cfg.Contact, TTL: int(keep / time.Second), Urgency: webpush.UrgencyHigh, VAPIDPublicKey: s.public, VAPIDPrivateKey: s.private,
	})
	if err != nil {
		turn.Done(false, s.cfg.Now(), rand.Float64())
		return fmt.Errorf("%s does not answer", service) // the cause contains the address
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	turn.Done(resp.StatusCode < http.StatusInternalServerError, s.cfg.Now(), rand.Float64())
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone { // RFC 8030 section 7.3
		return s.remove(ctx, p)
	}
	if _, err := notify.Status(resp.StatusCode, resp.Header); err != nil {
		return fmt.Errorf("%s: HTTP %d", service, resp.StatusCode)
	}
	return nil
}

// remove deletes a subscription that no longer works.
func (s *Sender) remove(ctx context.Context, p people.Push) error {
	if err := s.cfg.Store.RemovePush(ctx, p.Person, p.ID); err != nil && !errors.Is(err, people.ErrNoPush) {
		return err
	}
	return notify.ErrGone
}
