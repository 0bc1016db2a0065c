package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/seal"
)

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
