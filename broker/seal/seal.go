package seal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
)

// Wrapper is the wrapping key, independent of its location. Implementations are safe for concurrent
// use and honour the deadline of a context.
type Wrapper interface {
	// Wrap encrypts a data key of 32 bytes so that only its id opens it again. The
	// result is printable ASCII.
	Wrap(ctx context.Context, id string, key []byte) (wrapped string, err error)
	// Unwrap wraps ErrNoKey when the text needs another wrapping key.
	Unwrap(ctx context.Context, id, wrapped string) (key []byte, err error)
	// Stale reports that wrapped was not made by the newest version of the wrapping key; false when
	// that is not known.
	Stale(ctx context.Context, wrapped string) bool
	// Check returns an error if the wrapping key will no longer open data keys. Data keys that are
	// in use hide that until the next start. It returns nil if the key works or its state is
	// unknown. The Ring calls it every minute.
	Check(ctx context.Context) error
}

// Key is a data key in its stored form.
type Key struct {
	ID        string // 16 hex digits
	Wrapped   string
	CreatedAt time.Time // for people: its age is in its id
}

// Store stores data keys; replicas share it.
type Store interface {
	SealingKeys(context.Context) ([]Key, error) // oldest first
	AddSealingKey(context.Context, Key) error   // an id that exists is an error
	// RewrapSealingKey replaces the wrapped form if it still is old; otherwise it changes nothing.
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
	keys   map[string]dataKey
	newest string // "" = none: sealing fails
	err    error  // why there is none, or the error of the last maintenance
	looked time.Time
}

// lookAgain is the minimum interval at which Open asks the store for an unknown key.
const lookAgain = 5 * time.Second

// New makes a ring and loads its keys. If the wrapping key cannot be reached, New returns no error:
// Err reports it, sealing and opening fail, and Maintain tries again.
func New(ctx context.Context, c Config) (*Ring, error) {
	if c.Wrapper == nil || c.Store == nil {
		return nil, errors.New("seal: Config.Wrapper and Config.Store are required")
	}
	if c.RotateEvery == 0 {
		c.RotateEvery = 30 * 24 * time.Hour
	}
	if c.RotateEvery < time.Minute {
		return nil, fmt.Errorf("seal: RotateEvery is %s; it must be at least 1m", c.RotateEvery)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	r := &Ring{cfg: c, keys: map[string]dataKey{}}
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
func (r *Ring) Seal(leaseID string, s secret.Secret) (string, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	b, ok := r.keys[r.newest]
	switch {
	case !ok:
		return "", fmt.Errorf("seal: %w: %w", ErrNoKey, r.err)
	case leaseID == "" || s.Empty():
		return "", errors.New("seal: the lease id and the secret must not be empty")
	}
	sealed := b.seal(leaseID, s)
	if len(sealed) > maxSealed {
		return "", fmt.Errorf("seal: the sealed secret has %d bytes; the limit is %d", len(sealed), maxSealed)
	}
	return sealed, nil
}

// Open decrypts what Seal made for the same lease.
func (r *Ring) Open(leaseID, sealed string) (secret.Secret, error) {
	id, body, err := split(sealed)
	if err != nil {
		return secret.Secret{}, fmt.Errorf("seal: %w", err)
	}
	b, ok := r.key(id)
	if !ok {
		return secret.Secret{}, fmt.Errorf("seal: %w: no key %s", ErrNoKey, id)
	}
	s, err := b.open(leaseID, body)
	if err != nil {
		return secret.Secret{}, fmt.Errorf("seal: %w", err)
	}
	return s, nil
}

// key returns a key, also one that another replica has just made.
func (r *Ring) key(id string) (dataKey, bool) {
	r.mu.RLock()
	b, ok := r.keys[id]
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
	b, ok = r.keys[id]
	return b, ok
}

// Moved wraps with to, and also opens texts that from has wrapped. The maintenance of a Ring
// thereby moves data keys to another location of the wrapping key; afterwards from is not needed.
func Moved(to, from Wrapper) Wrapper { return moved{to, from} }

type moved struct {
	Wrapper         // Stale returns true for texts of from
	from    Wrapper // opens only
}

// Unwrap implements Wrapper.
func (m moved) Unwrap(ctx context.Context, id, wrapped string) ([]byte, error) {
	key, err := m.Wrapper.Unwrap(ctx, id, wrapped)
	if !errors.Is(err, ErrNoKey) {
		return key, err
	}
	key, old := m.from.Unwrap(ctx, id, wrapped)
	if old != nil {
		return nil, errors.Join(err, old)
	}
	return key, nil
}
