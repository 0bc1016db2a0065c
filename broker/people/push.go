package people

import (
	"context"
	"errors"
	"time"
)

// Push is a browser in which a person gets notifications (Push API). Its address permits
// sending to the browser, so the database holds it encrypted.
type Push struct {
	ID        string // hash of the address and the keys: a browser has one subscription
	Person    string // id of the principal
	Name      string // of the browser
	Sealed    string // address and keys, by package webpush
	CreatedAt time.Time
}

// MaxPushes is the maximum number of browsers of a person.
const MaxPushes = 10

var (
	// ErrNoPush is wrapped when the person has no such browser.
	ErrNoPush = errors.New("subscription not found")
	// ErrPushes is wrapped when the person has MaxPushes browsers.
	ErrPushes = errors.New("too many subscriptions")
)

// PushStore stores subscriptions; replicas share it.
type PushStore interface {
	// AddPush stores a subscription. A browser, by its address and keys, belongs to the person who
	// subscribed last. The error wraps ErrPushes when the person has MaxPushes browsers.
	AddPush(ctx context.Context, p Push) error
	// Pushes returns the subscriptions of a person, the oldest first.
	Pushes(ctx context.Context, person string) ([]Push, error)
	// RemovePush removes a subscription of the person. The error wraps ErrNoPush when there is none.
	RemovePush(ctx context.Context, person, id string) error
}
