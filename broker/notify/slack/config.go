package slack

import (
	"context"
	"fmt"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/notify"
)

// Options are the channel's settings in the configuration.
type Options struct {
	URL     notify.Key `json:"url"`                     // of the incoming webhook; a secret, because it permits posting
	Private bool       `json:"allow_private_addresses"` // its name may resolve to one
}

// Config holds the arguments of New.
type Config struct {
	Options
	Look  func(string) (string, bool) // os.LookupEnv
	Fetch fetch.Config                // Private is overwritten with that of Options
}

// Sender is one channel of Slack.
type Sender struct {
	post notify.Post
}

var _ notify.Sender = (*Sender)(nil)

// New reads the URL, which is a secret. It opens no connection.
func New(c Config) (*Sender, error) {
	secret, err := c.URL.Read(c.Look)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	c.Fetch.Private = c.Private
	post, err := notify.NewPost(secret.Reveal(), c.Fetch)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return &Sender{post: post}, nil
}

// Where implements notify.Sender.
func (s *Sender) Where() string { return s.post.Where() }

// Send implements notify.Sender.
func (s *Sender) Send(ctx context.Context, m notify.Message) (string, error) {
	text, err := payloadOf(m)
	if err != nil {
		return "", fmt.Errorf("%w: %w", notify.ErrRefused, err)
	}
	return s.post.Do(ctx, nil, text)
}
