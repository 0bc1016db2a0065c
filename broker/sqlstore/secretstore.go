package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/secretstore"
)

// secretStore stores the operator's secrets and the data keys, sealed.
type secretStore struct {
	com    *committer
	engine *engine
	kept   keptSecrets
}

var _ secretstore.Database = (*secretStore)(nil)

const secretColumns = "name, sealed, fence, version, changed_at"

func scanSecret(row scan) (secretstore.Row, error) {
	var r secretstore.Row
	var changed int64
	err := row(&r.Name, &r.Sealed, &r.Fence, &r.Version, &changed)
	r.ChangedAt = fromMillis(changed)
	return r, err
}

// Secrets implements secretstore.Database.
func (ss *secretStore) Secrets(ctx context.Context, names ...string) ([]secretstore.Row, error) {
	text, args, from := "SELECT "+secretColumns+" FROM secrets", []any{}, querier(ss.engine.read())
	var changes int
	if len(names) == 1 {
		row, is, n := ss.kept.get(names[0])
		if is {
			return []secretstore.Row{row}, nil
		}
		changes, from = n, hotPool{ss.engine}
	}
	if len(names) > 0 {
		text += " WHERE name IN (" + marks(len(names)) + ")"
		for _, n := range names {
			args = append(args, n)
		}
	}
	out, err := collect(ctx, from, text+" ORDER BY name", args, scanSecret)
	if err != nil {
		return nil, fmt.Errorf("secrets: %w", ss.engine.explain(err))
	}
	if len(names) == 1 && len(out) == 1 {
		ss.kept.put(out[0], changes)
	}
	return out, nil
}

// keptSecrets holds rows of secrets, still sealed, that requests through egress need. The
// zero value keeps none.
type keptSecrets struct {
	mu       sync.Mutex
	changing int // number of changes in progress; while above 0, reads go to the database
	changes  int // number of starts and ends of changes; a row is kept only if it is the same as before its read
	rows     map[string]secretstore.Row
}

func (k *keptSecrets) get(name string) (r secretstore.Row, is bool, changes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, is = k.rows[name]
	return r, is, k.changes
}

// put keeps row r if no change has begun or ended since the caller read changes with get.
func (k *keptSecrets) put(r secretstore.Row, changes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rows != nil && k.changing == 0 && k.changes == changes {
		k.rows[r.Name] = r
	}
}

// forget drops all rows. None is kept until the caller calls done, when the outcome of its change is
// known.
func (k *keptSecrets) forget() (done func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changing++
	k.changes++
	clear(k.rows)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.changing--
		k.changes++
	}
}

// change runs one compare-and-swap on data other than tasks and leases. A refusal is
// returned as refused, so that it does not fail the transaction.
func (ss *secretStore) change(ctx context.Context, work func(ctx context.Context, sess *session) (refused, err error)) error {
	var refused error
	err := ss.com.do(ctx, &unit{work: func(ctx context.Context, sess *session, _ *unit) (err error) {
		refused, err = work(ctx, sess)
		return err
	}})
	return errors.Join(refused, err)
}

// changeSecret is change for secrets. No row of a secret is kept while it runs.
func (ss *secretStore) changeSecret(ctx context.Context, work func(ctx context.Context, sess *session) (refused, err error)) error {
	defer ss.kept.forget()()
	return ss.change(ctx, work)
}

// PutSecret implements secretstore.Database.
func (ss *secretStore) PutSecret(ctx context.Context, r secretstore.Row) error {
	if r.Name == "" || r.ChangedAt.IsZero() || storable(r.Name, r.Sealed) != nil {
		return errors.New("secret: a name and a time are required")
	}
	err := ss.changeSecret(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		if r.Sealed != "" {
			_, err := sess.exec(ctx, "INSERT INTO secrets (name, sealed, fence, version, claimed_until, changed_at) VALUES (?, ?, ?, ?, 0, ?) "+
				"ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, fence = secrets.fence + 1, version = secrets.fence + 1, claimed_until = 0, changed_at = excluded.changed_at",
				// The fence does not start at 1: the claim of a removed secret must not
				// be valid for a new secret of the same name.
				r.Name, r.Sealed, millis(r.ChangedAt), millis(r.ChangedAt), millis(r.ChangedAt))
			return nil, err
		}
		n, err := sess.exec(ctx, "DELETE FROM secrets WHERE name = ?", r.Name)
		if err == nil && n == 0 {
			refused = secretstore.ErrNone
		}
		return refused, err
	})
	if err != nil {
		return fmt.Errorf("keeping a secret: %w", err)
	}
	return nil
}

// ClaimSecret implements secretstore.Database.
func (ss *secretStore) ClaimSecret(ctx context.Context, name string, now, until time.Time) (out secretstore.Row, err error) {
	err = ss.changeSecret(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		n, err := sess.exec(ctx, "UPDATE secrets SET fence = fence + 1, claimed_until = ? WHERE name = ? AND claimed_until <= ?", millis(until), name, millis(now))
		if err != nil {
			return nil, err
		}
		rows, err := collect(ctx, sess, "SELECT "+secretColumns+" FROM secrets WHERE name = ?", []any{name}, scanSecret)
		switch {
		case err != nil:
			return nil, err
		case len(rows) == 0:
			return secretstore.ErrNone, nil
		case n == 0:
			return secretstore.ErrHeld, nil
		}
		out = rows[0]
		return nil, nil
	})
	if err != nil {
		return secretstore.Row{}, fmt.Errorf("claiming a secret: %w", err)
	}
	return out, nil
}

// SettleSecret implements secretstore.Database.
func (ss *secretStore) SettleSecret(ctx context.Context, name string, fence int64, sealed string, at time.Time) error {
	if storable(sealed) != nil || at.IsZero() {
		return errors.New("secret: a time is required")
	}
	err := ss.changeSecret(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		n, err := sess.exec(ctx, "UPDATE secrets SET claimed_until = 0, sealed = CASE WHEN ? = '' THEN sealed ELSE ? END, "+
			"version = CASE WHEN ? = '' THEN version ELSE fence END, changed_at = CASE WHEN ? = '' THEN changed_at ELSE ? END WHERE name = ? AND fence = ?",
			sealed, sealed, sealed, sealed, millis(at), name, fence)
		if err != nil || n > 0 {
			return nil, err
		}
		found, err := exists(ctx, sess, "SELECT 1 FROM secrets WHERE name = ?", name)
		if err == nil && !found {
			return secretstore.ErrNone, nil
		}
		return secretstore.ErrHeld, err
	})
	if err != nil {
		return fmt.Errorf("settling a secret: %w", err)
	}
	return nil
}

// SecretsNotBy implements secretstore.Rotation.
func (ss *secretStore) SecretsNotBy(ctx context.Context, key, after string, n int) ([]secretstore.Row, error) {
	if key == "" || n < 1 || n > maxTake {
		return nil, fmt.Errorf("secrets: name a key and ask for 1 to %d", maxTake)
	}
	// LIKE differs between the engines.
	text := "SELECT " + secretColumns + " FROM secrets WHERE replace(sealed, ?, '') = sealed AND name > ? ORDER BY name LIMIT ?"
	out, err := collect(ctx, ss.engine.read(), text, []any{"." + key + ".", after, n}, scanSecret)
	if err != nil {
		return nil, fmt.Errorf("secrets: %w", ss.engine.explain(err))
	}
	return out, nil
}

// ResealSecret implements secretstore.Rotation.
func (ss *secretStore) ResealSecret(ctx context.Context, name, from, to string) error {
	if name == "" || from == "" || to == "" || storable(name, from, to) != nil {
		return errors.New("sealing a secret again needs its name, its present sealed form and the new one")
	}
	err := ss.changeSecret(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		_, err = sess.exec(ctx, "UPDATE secrets SET sealed = ? WHERE name = ? AND sealed = ?", to, name, from)
		return nil, err
	})
	if err != nil {
		return fmt.Errorf("sealing a secret again: %w", err)
	}
	return nil
}

var _ seal.Store = (*secretStore)(nil)

// SealingKeys implements seal.Store.
func (ss *secretStore) SealingKeys(ctx context.Context) ([]seal.Key, error) {
	out, err := collect(ctx, ss.engine.read(), "SELECT id, wrapped, created_at FROM sealing_keys ORDER BY created_at, id", nil, func(row scan) (seal.Key, error) {
		var k seal.Key
		var created int64
		err := row(&k.ID, &k.Wrapped, &created)
		k.CreatedAt = fromMillis(created)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("sealing keys: %w", ss.engine.explain(err))
	}
	return out, nil
}

// AddSealingKey implements seal.Store.
func (ss *secretStore) AddSealingKey(ctx context.Context, k seal.Key) error {
	if k.ID == "" || k.Wrapped == "" || k.CreatedAt.IsZero() || storable(k.ID, k.Wrapped) != nil {
		return errors.New("sealing key: an id, a wrapped form and a time are required")
	}
	work := func(ctx context.Context, sess *session, _ *unit) error {
		n, err := sess.exec(ctx, "INSERT INTO sealing_keys (id, wrapped, created_at) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
			k.ID, k.Wrapped, millis(k.CreatedAt))
		if err == nil && n == 0 {
			return fmt.Errorf("sealing key %s: %w", k.ID, broker.ErrExists)
		}
		return err
	}
	if err := ss.com.do(ctx, &unit{work: work}); err != nil {
		return fmt.Errorf("adding a sealing key: %w", err)
	}
	return nil
}

// RewrapSealingKey implements seal.Store.
func (ss *secretStore) RewrapSealingKey(ctx context.Context, id, old, wrapped string) error {
	if wrapped == "" || storable(wrapped) != nil {
		return errors.New("sealing key: a wrapped form is required")
	}
	work := func(ctx context.Context, sess *session, _ *unit) error {
		_, err := sess.exec(ctx, "UPDATE sealing_keys SET wrapped = ? WHERE id = ? AND wrapped = ?", wrapped, id, old)
		return err
	}
	if err := ss.com.do(ctx, &unit{work: work}); err != nil {
		return fmt.Errorf("wrapping a sealing key anew: %w", err)
	}
	return nil
}
