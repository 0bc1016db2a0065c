package secretstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Sealer is the part of broker.Sealer that a Store needs.
type Sealer interface {
	Seal(leaseID string, s secret.Secret) (string, error)
	Open(leaseID, sealed string) (secret.Secret, error)
	KeyID() string
}

// Store implements provider.SecretStore. It is safe for concurrent use.
type Store struct {
	store  Database
	sealer Sealer
	now    func() time.Time

	mu sync.Mutex
	// unsaved are successors that could not be written. The predecessor is used up, so this is
	// the only copy.
	unsaved map[string]successor
}

// successor is a secret that may replace one version of a secret only, because an operator may
// have stored a new one in the meantime, on any replica. of is that version; the sealed form
// would not do, because it changes when a key rotates.
type successor struct {
	of     int64
	sealed string
}

var _ provider.SecretStore = (*Store)(nil)

var nameForm = lazyregexp.New(`^[a-z][a-z0-9._-]{0,63}$`)

// ValidName reports whether name is a valid name of a secret.
func ValidName(name string) bool { return nameForm.MatchString(name) }

// ErrName is wrapped for an invalid name.
var ErrName = errors.New("the name of a secret must be a lower-case letter, then up to 63 of a-z 0-9 . _ -")

// New returns a Store on a database. now may be nil, for time.Now.
func New(store Database, sealer Sealer, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{store: store, sealer: sealer, now: now, unsaved: map[string]successor{}}
}

// bound returns the additional data of a sealed secret. The secret cannot be opened under another
// name, nor as the handle of a lease. The prefix is stored data and must not change.
func bound(name string) string { return "safe/" + name }

// Get returns a secret, or an error that wraps ErrNone.
func (s *Store) Get(ctx context.Context, name string) (secret.Secret, error) {
	rows, err := s.store.Secrets(ctx, name)
	if err != nil {
		return secret.Secret{}, fmt.Errorf("secret store: %w", err)
	}
	if len(rows) == 0 {
		return secret.Secret{}, fmt.Errorf("secret store: %s: %w", name, ErrNone)
	}
	return s.open(rows[0])
}

func (s *Store) open(r Row) (secret.Secret, error) {
	v, err := s.sealer.Open(bound(r.Name), r.Sealed)
	if err != nil {
		return v, fmt.Errorf("secret store: %s: %w", r.Name, err)
	}
	return v, nil
}

// Put stores a secret under a name and replaces an existing one.
func (s *Store) Put(ctx context.Context, name string, v secret.Secret) error {
	if !ValidName(name) {
		return fmt.Errorf("secret store: %w", ErrName)
	}
	sealed, err := s.sealer.Seal(bound(name), v)
	if err != nil {
		return fmt.Errorf("secret store: %s: %w", name, err)
	}
	return s.put(ctx, Row{Name: name, Sealed: sealed, ChangedAt: s.now()})
}

// Remove deletes a secret; ErrNone for an unknown name.
func (s *Store) Remove(ctx context.Context, name string) error {
	return s.put(ctx, Row{Name: name, ChangedAt: s.now()})
}

// put writes a row. It drops an unsaved successor only after the row is written: until then the
// successor may be the only usable secret.
func (s *Store) put(ctx context.Context, r Row) error {
	if err := s.store.PutSecret(ctx, r); err != nil {
		return fmt.Errorf("secret store: %s: %w", r.Name, err)
	}
	s.forget(r.Name)
	return nil
}

// Names returns the rows of all secrets, with names and times and without the sealed form.
func (s *Store) Names(ctx context.Context) ([]Row, error) {
	rows, err := s.store.Secrets(ctx)
	if err != nil {
		return nil, fmt.Errorf("secret store: %w", err)
	}
	for i := range rows {
		rows[i].Sealed = ""
	}
	return rows, nil
}

// workTime and settleTime split a claim: five eighths for f and one fifth for writing its result.
// The rest allows for clocks that differ between replicas.
func workTime(hold time.Duration) time.Duration   { return hold * 5 / 8 }
func settleTime(hold time.Duration) time.Duration { return hold / 5 }

// Exchange claims the secret over all replicas, calls f with it and stores the result as the new
// secret; an empty result changes nothing. The claim lasts for hold, and the context of f ends
// before that. If the result cannot be written, this process keeps it and writes it with the next
// Exchange, unless the secret was replaced in the meantime.
func (s *Store) Exchange(ctx context.Context, name string, hold time.Duration, f func(context.Context, secret.Secret) (secret.Secret, error)) error {
	row, err := s.claim(ctx, name, hold)
	if err != nil {
		return err
	}
	settle := func(sealed string) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime(hold))
		defer cancel()
		return s.store.SettleSecret(ctx, name, row.Fence, sealed, s.now())
	}
	sealed := row.Sealed
	late := s.late(row)
	if late != "" {
		sealed = late
	}
	old, err := s.open(Row{Name: name, Sealed: sealed})
	if err != nil {
		return errors.Join(err, settle(""))
	}
	work, cancel := context.WithTimeout(ctx, workTime(hold))
	defer cancel()
	next, ferr := f(work, old)
	out := late // the unsaved successor, unless f returns a newer secret
	if !next.Empty() && !next.Equal(old) {
		if out, err = s.sealer.Seal(bound(name), next); err != nil {
			return errors.Join(ferr, fmt.Errorf("secret store: %s: the new value could not be sealed and is lost; store a new secret with 'ebb secrets put': %w", name, err), settle(""))
		}
	}
	if err := settle(out); err != nil {
		if out != "" && !errors.Is(err, ErrHeld) && !errors.Is(err, ErrNone) {
			s.keep(name, successor{of: row.Version, sealed: out})
		}
		return errors.Join(ferr, fmt.Errorf("secret store: %s: %w", name, err))
	}
	s.forget(name)
	return ferr
}

// claim tries to claim the secret until it succeeds or ctx is done. The error then wraps ErrHeld.
func (s *Store) claim(ctx context.Context, name string, hold time.Duration) (Row, error) {
	var held error
	for {
		now := s.now()
		row, err := s.store.ClaimSecret(ctx, name, now, now.Add(hold))
		if held != nil && ctx.Err() != nil && err != nil {
			err = errors.Join(held, err) // ctx ended during this attempt
		} else if !errors.Is(err, ErrHeld) {
			if err != nil {
				err = fmt.Errorf("secret store: %s: %w", name, err)
			}
			return row, err
		}
		held = err
		select {
		case <-ctx.Done():
			return Row{}, fmt.Errorf("secret store: %s: %w: %w", name, err, ctx.Err())
		case <-time.After(20*time.Millisecond + rand.N(30*time.Millisecond)): //nolint:gosec // it only spreads out
		}
	}
}

func (s *Store) keep(name string, next successor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsaved[name] = next
}

// late returns the unsaved successor of the stored version, or "". It drops the successor of any
// other version.
func (s *Store) late(r Row) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, ok := s.unsaved[r.Name]
	if !ok || next.of != r.Version {
		delete(s.unsaved, r.Name)
		return ""
	}
	return next.sealed
}

func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unsaved, name)
}
