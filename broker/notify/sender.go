package notify

import (
	"context"
	"errors"
	"time"
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
