package notify

import (
	"context"
	"errors"
	"time"
)

// Sender hands messages over at one place. It is safe for concurrent use, keeps nothing,
// and ends in bounded time.
type Sender interface {
	// Send returns what came back, as one line that may be shown. An error means that the
	// message was not taken, or may not have been; unless it is one of those below, it is
	// worth another try later.
	Send(ctx context.Context, m Message) (said string, err error)
	// Where says to people where messages go: a host, never a path or a secret.
	Where() string
}

var (
	// ErrRefused is wrapped when this message will never be taken.
	ErrRefused = errors.New("the message is refused for good")
	// ErrGone is wrapped when no message will be taken any more (RFC 9110, section 15.5.11).
	ErrGone = errors.New("the receiver is gone")
)

// BusyError says that the receiver wants to be left alone for a while.
type BusyError struct {
	After time.Duration
	Cause error
}

// Error implements error.
func (e *BusyError) Error() string { return "the receiver limits the rate: " + e.Cause.Error() }

// Unwrap is the cause.
func (e *BusyError) Unwrap() error { return e.Cause }
