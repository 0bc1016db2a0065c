package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker/people"
)

var _ people.ReachStore = (*peopleStore)(nil)

const reachColumns = "person, mail, roles, in_groups, also, seen_at, wishes"

// Know implements people.ReachStore.
func (s *peopleStore) Know(ctx context.Context, r people.Reach) error {
	if r.Person == "" || r.SeenAt.IsZero() || storable(append([]string{r.Person, r.Mail}, slices.Concat(r.Roles, r.Groups, r.Also)...)...) != nil {
		return errors.New("reach: a person and a time are required, with texts in UTF-8")
	}
	var lists [3]string
	for i, list := range [][]string{r.Roles, r.Groups, r.Also} {
		b, err := json.Marshal(list)
		if err != nil {
			return err
		}
		lists[i] = string(b)
	}
	wishes, err := json.Marshal(people.DefaultWishes())
	if err != nil {
		return err
	}
	err = s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		_, err = sess.exec(ctx, "INSERT INTO reach ("+reachColumns+") VALUES ("+marks(7)+") ON CONFLICT (person) DO UPDATE SET "+
			"mail = excluded.mail, roles = excluded.roles, in_groups = excluded.in_groups, also = excluded.also, seen_at = excluded.seen_at",
			r.Person, r.Mail, lists[0], lists[1], lists[2], millis(r.SeenAt), string(wishes))
		return nil, err
	})
	if err != nil {
		return fmt.Errorf("reach: %w", err)
	}
	return nil
}

// Wish implements people.ReachStore.
func (s *peopleStore) Wish(ctx context.Context, person string, w people.Wishes) error {
	if err := w.Check(); err != nil {
		return fmt.Errorf("wishes: %w", err)
	}
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	err = s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		n, err := sess.exec(ctx, "UPDATE reach SET wishes = ? WHERE person = ?", string(text), person)
		if err == nil && n == 0 {
			refused = people.ErrNone
		}
		return refused, err
	})
	if err != nil {
		return fmt.Errorf("wishes: %w", err)
	}
	return nil
}

// Reach implements people.ReachStore.
func (s *peopleStore) Reach(ctx context.Context, person string) (people.Reach, error) {
	found, err := collect(ctx, s.engine.read(), "SELECT "+reachColumns+" FROM reach WHERE person = ?", []any{person}, scanReach)
	return single(found, s.engine.explain(err), "reach", people.ErrNone)
}

// Reachable implements people.ReachStore.
func (s *peopleStore) Reachable(ctx context.Context, since time.Time) ([]people.Reach, error) {
	found, err := collect(ctx, s.engine.read(), "SELECT "+reachColumns+" FROM reach WHERE seen_at >= ? AND mail <> '' ORDER BY seen_at DESC, person LIMIT ?",
		[]any{millis(since), people.MaxReach}, scanReach)
	if err != nil {
		return nil, fmt.Errorf("reachable: %w", s.engine.explain(err))
	}
	return found, nil
}

func scanReach(row scan) (people.Reach, error) {
	var r people.Reach
	var roles, groups, also, wishes string
	var seen int64
	if err := row(&r.Person, &r.Mail, &roles, &groups, &also, &seen, &wishes); err != nil {
		return r, err
	}
	r.SeenAt = fromMillis(seen)
	return r, errors.Join(json.Unmarshal([]byte(roles), &r.Roles), json.Unmarshal([]byte(groups), &r.Groups), json.Unmarshal([]byte(also), &r.Also), json.Unmarshal([]byte(wishes), &r.Wishes))
}
