package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/provider"
)

// Post is the part that all kinds over HTTP share. It reports the status of an answer but
// not its body, which is untrusted text.
type Post struct {
	place *fetch.Place
	where string
}

// NewPost fixes the URL. Errors do not repeat it: the path of a webhook is often the
// secret that permits its use.
func NewPost(text string, c fetch.Config) (Post, error) {
	const (
		timeout   = 10 * time.Second // for one attempt, including the answer
		maxAnswer = 16 << 10         // the rest is read and discarded, so that the connection can be reused
	)
	c.Timeout, c.MaxBytes = timeout, maxAnswer
	place, err := fetch.NewPlace(text, c)
	u, err2 := url.Parse(text)
	if err != nil || err2 != nil {
		return Post{}, errors.New("it must be an https URL (http on loopback) without user information and fragment")
	}
	return Post{place, u.Scheme + "://" + u.Host}, nil
}

// Where returns the part of the URL that may be shown.
func (p Post) Where() string { return p.where }

// busyTime is the wait after a rate-limiting answer without a duration.
const busyTime = time.Minute

// Do sends a JSON body once. It adds to header.
func (p Post) Do(ctx context.Context, header http.Header, body []byte) (string, error) {
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", "ebb")
	a, err := p.place.Do(ctx, fetch.Request{Method: http.MethodPost, Body: body, Header: header})
	switch {
	case errors.Is(err, fetch.ErrRedirect):
		return "", errors.New("the receiver redirects: configure its new URL")
	case errors.Is(err, fetch.ErrTooLarge): // a long answer is an answer, of unknown status
		return "", errors.New("the receiver's answer is too long")
	case err != nil:
		return "", fmt.Errorf("the receiver does not answer: %w", cmp.Or(errors.Unwrap(err), err)) // the URL comes first in err
	}
	return Status(a.Status, a.Header)
}

// Status returns the text of a status line, and the error that it means for a message.
func Status(status int, h http.Header) (said string, err error) {
	said = fmt.Sprintf("HTTP %d %s", status, http.StatusText(status))
	switch {
	case status >= 200 && status < 300:
		return said, nil
	case status == http.StatusGone:
		return said, fmt.Errorf("%w: %s", ErrGone, said)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		after, told := provider.RetryAfter(h, time.Now())
		if !told {
			after = busyTime
		}
		return said, &BusyError{After: after, Cause: errors.New(said)}
	}
	return said, fmt.Errorf("the receiver answered %s", said)
}

// HookOptions are the settings of a channel whose only setting is a URL.
type HookOptions struct {
	URL     Key  `json:"url"`                     // a secret, because it permits posting
	Private bool `json:"allow_private_addresses"` // the host of URL may resolve to a private address
}

// Hook is a Sender that posts messages.
type Hook struct {
	Post
	Body func(Message) ([]byte, error)
	Sign func(Message, []byte) (http.Header, error) // headers of a body; nil = none
}

var _ Sender = (*Hook)(nil)

// NewHook returns the Sender of a chat. Its URL is a secret. body returns a message as the JSON of the chat. look is
// os.LookupEnv; the Private of c is overwritten with that of o. It opens no connection.
func NewHook(o HookOptions, look func(string) (string, bool), c fetch.Config, body func(Message) ([]byte, error)) (*Hook, error) {
	secret, err := o.URL.Read(look)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	c.Private = o.Private
	post, err := NewPost(secret.Reveal(), c)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return &Hook{Post: post, Body: body}, nil
}

// Send implements Sender.
func (h *Hook) Send(ctx context.Context, m Message) (string, error) {
	text, err := h.Body(m)
	header := http.Header{}
	if err == nil && h.Sign != nil {
		header, err = h.Sign(m, text)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return h.Do(ctx, header, text)
}
