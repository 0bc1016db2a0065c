package seal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ebb/broker/provider"
)

// Wrapper is the wrapping key, wherever it lives. Implementations are safe for
// concurrent use and honour the deadline of a context.
type Wrapper interface {
	// Wrap encrypts a data key of 32 bytes so that only its id opens it again. The
	// result is printable ASCII.
	Wrap(ctx context.Context, id string, key []byte) (wrapped string, err error)
	// Unwrap wraps ErrNoKey when another wrapping key would be needed.
	Unwrap(ctx context.Context, id, wrapped string) (key []byte, err error)
	// Stale reports that wrapped was not made by the newest version of the
	// wrapping key; false when that cannot be told now.
	Stale(ctx context.Context, wrapped string) bool
	// Check says why, from some time on, the wrapping key will not open what it has
	// wrapped: data keys in use hide that until the next start. nil when it will, or
	// when that cannot be told now. It is asked every minute.
	Check(ctx context.Context) error
}

// Key is a data key as the store keeps it.
type Key struct {
	ID        string // 16 hex digits
	Wrapped   string
	CreatedAt time.Time // for people: its age is in its id
}

// Store keeps data keys; replicas share it.
type Store interface {
	SealingKeys(context.Context) ([]Key, error) // oldest first
	AddSealingKey(context.Context, Key) error   // an id that exists is an error
	// RewrapSealingKey replaces the wrapped form if it still is old; else nothing.
	RewrapSealingKey(ctx context.Context, id, old, wrapped string) error
}

// Config of a Ring. Wrapper and Store are required.
type Config struct {
	Wrapper     Wrapper
	Store       Store
	RotateEvery time.Duration    // how long one data key seals; 0 = 30 days
	Now         func() time.Time // nil = time.Now
	Log         *slog.Logger     // nil = silent
}

// Ring holds the data keys. It implements broker.Sealer and is safe for
// concurrent use.
type Ring struct {
	cfg Config

	maintain sync.Mutex // one maintenance at a time

	mu     sync.RWMutex
	boxes  map[string]box
	newest string // "" = none: sealing fails
	err    error  // why, or what of the last maintenance failed
	looked time.Time
}

// lookAgain bounds how often an unknown key makes Open ask the store.
const lookAgain = 5 * time.Second

// New makes a ring and loads it. A wrapping key that cannot be reached now is no
// error: Err says so, sealing and opening fail, and Maintain tries again.
func New(ctx context.Context, c Config) (*Ring, error) {
	if c.Wrapper == nil || c.Store == nil {
		return nil, errors.New("seal: a wrapper and a store are required")
	}
	if c.RotateEvery == 0 {
		c.RotateEvery = 30 * 24 * time.Hour
	}
	if c.RotateEvery < time.Minute {
		return nil, errors.New("seal: rotate at most every minute")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	r := &Ring{cfg: c, boxes: map[string]box{}}
	if err := r.Maintain(ctx); err != nil {
		c.Log.ErrorContext(ctx, "sealing keys are not available: nothing mints at third parties until they are", "error", err)
	}
	return r, nil
}

// Err is nil when handles can be sealed, and every data key opens.
func (r *Ring) Err() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.err
}

// KeyID names the key that Seal uses now, as it stands between the dots of what Seal
// returns, or is "" when there is none.
func (r *Ring) KeyID() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.newest
}

// Seal encrypts s for a lease with the newest key.
func (r *Ring) Seal(leaseID string, s provider.Secret) (string, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	b, ok := r.boxes[r.newest]
	switch {
	case !ok:
		return "", fmt.Errorf("seal: %w: %w", ErrNoKey, r.err)
	case leaseID == "" || s.Empty():
		return "", errors.New("seal: a lease and a secret are required")
	}
	sealed := b.seal(leaseID, s)
	if len(sealed) > maxSealed {
		return "", errors.New("seal: the secret is larger than any handle")
	}
	return sealed, nil
}

// Open decrypts what Seal made for the same lease.
func (r *Ring) Open(leaseID, sealed string) (provider.Secret, error) {
	id, body, err := split(sealed)
	if err != nil {
		return provider.Secret{}, fmt.Errorf("seal: %w", err)
	}
	b, ok := r.box(id)
	if !ok {
		return provider.Secret{}, fmt.Errorf("seal: %w: no key %s", ErrNoKey, id)
	}
	s, err := b.open(leaseID, body)
	if err != nil {
		return provider.Secret{}, fmt.Errorf("seal: %w", err)
	}
	return s, nil
}

// box finds a key, also one that another replica has just made.
func (r *Ring) box(id string) (box, bool) {
	r.mu.RLock()
	b, ok := r.boxes[id]
	looked := r.looked
	r.mu.RUnlock()
	if ok || r.cfg.Now().Sub(looked) < lookAgain {
		return b, ok
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.Maintain(ctx); err != nil {
		r.cfg.Log.WarnContext(ctx, "sealing keys could not be loaded", "error", err)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	b, ok = r.boxes[id]
	return b, ok
}
