package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/broker/safe"
)

var _ safe.Store = (*Store)(nil)

const secretColumns = "name, sealed, fence, version, changed_at"

func scanSecret(row scan) (safe.Row, error) {
	var r safe.Row
	var changed int64
	err := row(&r.Name, &r.Sealed, &r.Fence, &r.Version, &changed)
	r.ChangedAt = fromMillis(changed)
	return r, err
}

// Secrets implements safe.Store.
func (s *Store) Secrets(ctx context.Context, names ...string) ([]safe.Row, error) {
	text, args, from := "SELECT "+secretColumns+" FROM secrets", []any{}, querier(s.engine.read())
	if len(names) == 1 {
		from = hotPool{s.engine}
	}
	if len(names) > 0 {
		text += " WHERE name IN (" + marks(len(names)) + ")"
		for _, n := range names {
			args = append(args, n)
		}
	}
	out, err := collect(ctx, from, text+" ORDER BY name", args, scanSecret)
	if err != nil {
		return nil, fmt.Errorf("secrets: %w", s.engine.explain(err))
	}
	return out, nil
}

// change runs one compare-and-swap on what is neither task nor lease. What it refuses is decided by
// refused, which the transaction does not fail for.
func (s *Store) change(ctx context.Context, work func(ctx context.Context, sess *session) (refused, err error)) error {
	var refused error
	err := s.com.do(ctx, &unit{work: func(ctx context.Context, sess *session, _ *unit) (err error) {
		refused, err = work(ctx, sess)
		return err
	}})
	return errors.Join(refused, err)
}

// PutSecret implements safe.Store.
func (s *Store) PutSecret(ctx context.Context, r safe.Row) error {
	if r.Name == "" || r.ChangedAt.IsZero() || storable(r.Name, r.Sealed) != nil {
		return errors.New("secret: it needs a name and a time")
	}
	err := s.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		if r.Sealed != "" {
			_, err := sess.exec(ctx, "INSERT INTO secrets (name, sealed, fence, version, claimed_until, changed_at) VALUES (?, ?, ?, ?, 0, ?) "+
				"ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, fence = secrets.fence + 1, version = secrets.fence + 1, claimed_until = 0, changed_at = excluded.changed_at",
				// Not from 1: who held one that was removed must not pass for the holder of its namesake.
				r.Name, r.Sealed, millis(r.ChangedAt), millis(r.ChangedAt), millis(r.ChangedAt))
			return nil, err
		}
		n, err := sess.exec(ctx, "DELETE FROM secrets WHERE name = ?", r.Name)
		if err == nil && n == 0 {
			refused = safe.ErrNone
		}
		return refused, err
	})
	if err != nil {
		return fmt.Errorf("keeping a secret: %w", err)
	}
	return nil
}

// ClaimSecret implements safe.Store.
func (s *Store) ClaimSecret(ctx context.Context, name string, now, until time.Time) (out safe.Row, err error) {
	err = s.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		n, err := sess.exec(ctx, "UPDATE secrets SET fence = fence + 1, claimed_until = ? WHERE name = ? AND claimed_until <= ?", millis(until), name, millis(now))
		if err != nil {
			return nil, err
		}
		rows, err := collect(ctx, sess, "SELECT "+secretColumns+" FROM secrets WHERE name = ?", []any{name}, scanSecret)
		switch {
		case err != nil:
			return nil, err
		case len(rows) == 0:
			return safe.ErrNone, nil
		case n == 0:
			return safe.ErrHeld, nil
		}
		out = rows[0]
		return nil, nil
	})
	if err != nil {
		return safe.Row{}, fmt.Errorf("claiming a secret: %w", err)
	}
	return out, nil
}

// SettleSecret implements safe.Store.
func (s *Store) SettleSecret(ctx context.Context, name string, fence int64, sealed string, at time.Time) error {
	if storable(sealed) != nil || at.IsZero() {
		return errors.New("secret: it needs a time")
	}
	err := s.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		n, err := sess.exec(ctx, "UPDATE secrets SET claimed_until = 0, sealed = CASE WHEN ? = '' THEN sealed ELSE ? END, "+
			"version = CASE WHEN ? = '' THEN version ELSE fence END, changed_at = CASE WHEN ? = '' THEN changed_at ELSE ? END WHERE name = ? AND fence = ?",
			sealed, sealed, sealed, sealed, millis(at), name, fence)
		if err != nil || n > 0 {
			return nil, err
		}
		found, err := exists(ctx, sess, "SELECT 1 FROM secrets WHERE name = ?", name)
		if err == nil && !found {
			return safe.ErrNone, nil
		}
		return safe.ErrHeld, err
	})
	if err != nil {
		return fmt.Errorf("settling a secret: %w", err)
	}
	return nil
}

// SecretsNotBy implements safe.Rotation.
func (s *Store) SecretsNotBy(ctx context.Context, key, after string, n int) ([]safe.Row, error) {
	if key == "" || n < 1 || n > maxTake {
		return nil, fmt.Errorf("secrets: name a key and ask for 1 to %d", maxTake)
	}
	// LIKE is not the same in both engines.
	text := "SELECT " + secretColumns + " FROM secrets WHERE replace(sealed, ?, '') = sealed AND name > ? ORDER BY name LIMIT ?"
	out, err := collect(ctx, s.engine.read(), text, []any{"." + key + ".", after, n}, scanSecret)
	if err != nil {
		return nil, fmt.Errorf("secrets: %w", s.engine.explain(err))
	}
	return out, nil
}

// ResealSecret implements safe.Rotation.
func (s *Store) ResealSecret(ctx context.Context, name, from, to string) error {
	if name == "" || from == "" || to == "" || storable(name, from, to) != nil {
		return errors.New("sealing a secret again needs its name, what it was and what it becomes")
	}
	err := s.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		_, err = sess.exec(ctx, "UPDATE secrets SET sealed = ? WHERE name = ? AND sealed = ?", to, name, from)
		return nil, err
	})
	if err != nil {
		return fmt.Errorf("sealing a secret again: %w", err)
	}
	return nil
}
