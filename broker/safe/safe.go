package safe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"time"

	"ebb/broker/provider"
)

// Sealer is broker.Sealer without what a safe does not need.
type Sealer interface {
	Seal(leaseID string, s provider.Secret) (string, error)
	Open(leaseID, sealed string) (provider.Secret, error)
	KeyID() string
}

// Safe implements provider.Safe. It is safe for concurrent use.
type Safe struct {
	store  Store
	sealer Sealer
	now    func() time.Time

	mu sync.Mutex
	// unsaved are successors that the store did not take: the predecessor is used
	// up, and this is the only copy.
	unsaved map[string]successor
}

// successor is a secret that takes the place of another and of no third: by the time
// it can be written, somebody may have put a new one there, on any replica. Of is the
// other's version: its sealed form changes when a key rotates.
type successor struct {
	of     int64
	sealed string
}

var _ provider.Safe = (*Safe)(nil)

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,63}$`)

// ValidName reports whether name can be the name of a secret.
func ValidName(name string) bool { return nameForm.MatchString(name) }

// ErrName is wrapped when a name cannot be one.
var ErrName = errors.New("a name is a lower-case letter, then up to 63 of a-z, 0-9, dot, underscore and hyphen")

// New makes a safe. now may be nil.
func New(store Store, sealer Sealer, now func() time.Time) *Safe {
	if now == nil {
		now = time.Now
	}
	return &Safe{store: store, sealer: sealer, now: now, unsaved: map[string]successor{}}
}

// bound is what a sealed secret is tied to: it opens under no other name, and as no
// lease's handle.
func bound(name string) string { return "safe/" + name }

// Get opens a secret.
func (s *Safe) Get(ctx context.Context, name string) (provider.Secret, error) {
	rows, err := s.store.Secrets(ctx, name)
	if err != nil {
		return provider.Secret{}, fmt.Errorf("safe: %w", err)
	}
	if len(rows) == 0 {
		return provider.Secret{}, fmt.Errorf("safe: %s: %w", name, ErrNone)
	}
	return s.open(rows[0])
}

func (s *Safe) open(r Row) (provider.Secret, error) {
	v, err := s.sealer.Open(bound(r.Name), r.Sealed)
	if err != nil {
		return v, fmt.Errorf("safe: %s: %w", r.Name, err)
	}
	return v, nil
}

// Put keeps a secret under a name, in place of what was there.
func (s *Safe) Put(ctx context.Context, name string, v provider.Secret) error {
	if !ValidName(name) {
		return fmt.Errorf("safe: %w", ErrName)
	}
	sealed, err := s.sealer.Seal(bound(name), v)
	if err != nil {
		return fmt.Errorf("safe: %s: %w", name, err)
	}
	return s.put(ctx, Row{Name: name, Sealed: sealed, ChangedAt: s.now()})
}

// Remove forgets a secret; ErrNone when there is none.
func (s *Safe) Remove(ctx context.Context, name string) error {
	return s.put(ctx, Row{Name: name, ChangedAt: s.now()})
}

// put writes a row. A successor that was not written is forgotten only when the row is
// there: until then it may be all there is.
func (s *Safe) put(ctx context.Context, r Row) error {
	if err := s.store.PutSecret(ctx, r); err != nil {
		return fmt.Errorf("safe: %s: %w", r.Name, err)
	}
	s.forget(r.Name)
	return nil
}

// Names lists what there is: names and times, never a secret.
func (s *Safe) Names(ctx context.Context) ([]Row, error) {
	rows, err := s.store.Secrets(ctx)
	if err != nil {
		return nil, fmt.Errorf("safe: %w", err)
	}
	for i := range rows {
		rows[i].Sealed = ""
	}
	return rows, nil
}

// A claim of some length leaves f the first part of it and the write of the
// successor the second; what is left is room for clocks that differ.
func workTime(hold time.Duration) time.Duration   { return hold * 5 / 8 }
func settleTime(hold time.Duration) time.Duration { return hold / 5 }

// Exchange calls f with the secret while nobody else, on any replica, holds it, and
// keeps what f returns in its place; an empty answer changes nothing. f has hold
// to finish: its context ends before the claim does. A successor that the store
// does not take is kept in this process and written with the next exchange, unless
// the secret was replaced meanwhile.
func (s *Safe) Exchange(ctx context.Context, name string, hold time.Duration, f func(context.Context, provider.Secret) (provider.Secret, error)) error {
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
	out := late // not written yet, unless f has a later one
	if !next.Empty() && !next.Equal(old) {
		if out, err = s.sealer.Seal(bound(name), next); err != nil {
			return errors.Join(ferr, fmt.Errorf("safe: %s: the successor is lost: %w", name, err), settle(""))
		}
	}
	if err := settle(out); err != nil {
		if out != "" && !errors.Is(err, ErrHeld) && !errors.Is(err, ErrNone) {
			s.keep(name, successor{of: row.Version, sealed: out})
		}
		return errors.Join(ferr, fmt.Errorf("safe: %s: %w", name, err))
	}
	s.forget(name)
	return ferr
}

// claim waits its turn.
func (s *Safe) claim(ctx context.Context, name string, hold time.Duration) (Row, error) {
	var held error
	for {
		now := s.now()
		row, err := s.store.ClaimSecret(ctx, name, now, now.Add(hold))
		if held != nil && ctx.Err() != nil && err != nil {
			err = errors.Join(held, err) // the caller's time ran out while it asked once more
		} else if !errors.Is(err, ErrHeld) {
			if err != nil {
				err = fmt.Errorf("safe: %s: %w", name, err)
			}
			return row, err
		}
		held = err
		select {
		case <-ctx.Done():
			return Row{}, fmt.Errorf("safe: %s: %w: %w", name, err, ctx.Err())
		case <-time.After(20*time.Millisecond + rand.N(30*time.Millisecond)): //nolint:gosec // it only spreads out
		}
	}
}

func (s *Safe) keep(name string, next successor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsaved[name] = next
}

// late is the successor of what the store has, if it was not written; one of
// anything else is forgotten.
func (s *Safe) late(r Row) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, ok := s.unsaved[r.Name]
	if !ok || next.of != r.Version {
		delete(s.unsaved, r.Name)
		return ""
	}
	return next.sealed
}

func (s *Safe) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unsaved, name)
}
