package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/broker/people"
)

var _ people.PushStore = (*peopleStore)(nil)

const pushColumns = "id, person, name, sealed, created_at"

// AddPush implements people.PushStore.
func (s *peopleStore) AddPush(ctx context.Context, p people.Push) error {
	if p.ID == "" || p.Person == "" || p.Sealed == "" || p.CreatedAt.IsZero() || storable(p.ID, p.Person, p.Name, p.Sealed) != nil {
		return errors.New("subscription: an id, a person, an address and a time are required, with texts in UTF-8")
	}
	err := s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		// One statement checks the maximum and stores the row: a refusal commits, and must not remove the row of another person.
		n, err := sess.exec(ctx, "INSERT INTO push_subscriptions ("+pushColumns+") SELECT "+marks(5)+" WHERE (SELECT COUNT(*) FROM push_subscriptions WHERE person = ? AND id <> ?) < ? "+
			"ON CONFLICT (id) DO UPDATE SET person = excluded.person, name = excluded.name, sealed = excluded.sealed, created_at = excluded.created_at",
			p.ID, p.Person, p.Name, p.Sealed, millis(p.CreatedAt), p.Person, p.ID, people.MaxPushes)
		if err == nil && n == 0 {
			refused = people.ErrPushes
		}
		return refused, err
	})
	if err != nil {
		return fmt.Errorf("store a subscription: %w", err)
	}
	return nil
}

// Pushes implements people.PushStore.
func (s *peopleStore) Pushes(ctx context.Context, person string) ([]people.Push, error) {
	found, err := collect(ctx, s.engine.read(), "SELECT "+pushColumns+" FROM push_subscriptions WHERE person = ? ORDER BY created_at, id", []any{person}, func(row scan) (p people.Push, err error) {
		var at int64
		err = row(&p.ID, &p.Person, &p.Name, &p.Sealed, &at)
		p.CreatedAt = fromMillis(at)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("subscriptions: %w", s.engine.explain(err))
	}
	return found, nil
}

// RemovePush implements people.PushStore.
func (s *peopleStore) RemovePush(ctx context.Context, person, id string) error {
	err := s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		n, err := sess.exec(ctx, "DELETE FROM push_subscriptions WHERE id = ? AND person = ?", id, person)
		if err == nil && n == 0 {
			refused = people.ErrNoPush
		}
		return refused, err
	})
	if err != nil {
		return fmt.Errorf("subscription: %w", err)
	}
	return nil
}
