package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
)

// Sender delivers messages to one destination. It is safe for concurrent use, stores
// nothing, and returns in bounded time.
type Sender interface {
	// Send returns the answer as one line that may be shown. After an error the message
	// was not accepted, or may not have been. Unless it is one of the errors below, a
	// later retry may succeed.
	Send(ctx context.Context, m Message) (said string, err error)
	// Where returns the destination for display: a host, never a path or a secret.
	Where() string
}

// Channel is a configured way to notify people. Package all opens it by its kind.
type Channel struct {
	Name   string // from the configuration; the caller of all.New sets it
	Sender Sender
	Place  bool // the channel has a destination of its own that gets every message
	People bool // the channel reaches people by their mail address
	Push   bool // the channel reaches people in their browsers
}

var (
	// ErrRefused is wrapped when the receiver will never accept this message.
	ErrRefused = errors.New("the message is refused permanently")
	// ErrAddress is wrapped when a person's address does not work. It says nothing about the
	// channel.
	ErrAddress = errors.New("the address of the person does not work")
	// ErrGone is wrapped when the receiver will accept no further message (RFC 9110,
	// section 15.5.11).
	ErrGone = errors.New("the receiver is gone")
)

// BusyError means that the receiver limits the rate, and contains the time to wait.
type BusyError struct {
	After time.Duration
	Cause error
}

// Error implements error.
func (e *BusyError) Error() string { return "the receiver limits the rate: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *BusyError) Unwrap() error { return e.Cause }

// Key names a secret of a channel: a file (mode 0600) or an environment variable. The
// configuration never holds the secret itself.
type Key struct {
	File     string `json:"file"`
	Variable string `json:"variable"`
}

// Set reports whether k names a secret.
func (k Key) Set() bool { return k.File != "" || k.Variable != "" }

// Read returns the secret. look is os.LookupEnv.
func (k Key) Read(look func(string) (string, bool)) (secret.Secret, error) {
	switch {
	case k.File != "" && k.Variable != "":
		return secret.Secret{}, errors.New("a secret is named by both file and variable: set only one")
	case k.File != "":
		return secret.Read(k.File)
	case k.Variable != "":
		text, set := look(k.Variable)
		if text = strings.TrimRight(text, "\r\n"); !set || text == "" {
			return secret.Secret{}, fmt.Errorf("the variable %s is not set", k.Variable)
		}
		return secret.New(text), nil
	}
	return secret.Secret{}, errors.New("a secret is missing: name its file or its variable")
}
