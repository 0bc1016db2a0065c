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

// peopleStore stores the sessions, passkeys and addresses of the console's users.
type peopleStore struct {
	engine *engine

	secrets *secretStore
}

var _ people.Store = (*peopleStore)(nil)

// sessionKept is how long an expired session is kept, to tell it apart from an unknown
// one.
const sessionKept = 24 * time.Hour

const sessionColumns = "id, act, person, name, roles, in_groups, also, method, acr, agent, purpose, auth_at, groups_at, created_at, seen_at, expires_at"

// AddSession implements people.Store.
func (s *peopleStore) AddSession(ctx context.Context, p people.Session) error {
	if p.ID == "" || p.Act == "" || p.Person == "" || p.CreatedAt.IsZero() || p.ExpiresAt.IsZero() ||
		storable(append([]string{p.ID, p.Act, p.Person, p.Name, p.Method, p.ACR, p.Agent, p.Purpose}, slices.Concat(p.Roles, p.Groups, p.Also)...)...) != nil {
		return errors.New("session: ids, a person and times are required, with texts in UTF-8")
	}
	roles, err := json.Marshal(p.Roles)
	if err != nil {
		return err
	}
	groups, err := json.Marshal(p.Groups)
	if err != nil {
		return err
	}
	also, err := json.Marshal(p.Also)
	if err != nil {
		return err
	}
	err = s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		if _, err := sess.exec(ctx, "DELETE FROM sessions WHERE expires_at < ?", millis(p.CreatedAt.Add(-sessionKept))); err != nil {
			return nil, err
		}
		_, err = sess.exec(ctx, "INSERT INTO sessions ("+sessionColumns+") VALUES ("+marks(16)+")",
			p.ID, p.Act, p.Person, p.Name, string(roles), string(groups), string(also), p.Method, p.ACR, p.Agent, p.Purpose,
			millis(p.AuthAt), millis(p.GroupsAt), millis(p.CreatedAt), millis(p.SeenAt), millis(p.ExpiresAt))
		return nil, err
	})
	if err != nil {
		return fmt.Errorf("keeping a session: %w", err)
	}
	return nil
}

// Session implements people.Store.
func (s *peopleStore) Session(ctx context.Context, id string) (people.Session, error) {
	found, err := collect(ctx, s.engine.read(), "SELECT "+sessionColumns+" FROM sessions WHERE id = ?", []any{id}, scanSession)
	return single(found, s.engine.explain(err), "session", people.ErrNone)
}

// Sessions implements people.Store.
func (s *peopleStore) Sessions(ctx context.Context, person string) ([]people.Session, error) {
	found, err := collect(ctx, s.engine.read(), "SELECT "+sessionColumns+" FROM sessions WHERE person = ? ORDER BY seen_at DESC, id LIMIT ?", []any{person, people.MaxSessions}, scanSession)
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", s.engine.explain(err))
	}
	return found, nil
}

func scanSession(row scan) (people.Session, error) {
	var p people.Session
	var roles, groups, also string
	var at [5]int64
	if err := row(&p.ID, &p.Act, &p.Person, &p.Name, &roles, &groups, &also, &p.Method, &p.ACR, &p.Agent, &p.Purpose, &at[0], &at[1], &at[2], &at[3], &at[4]); err != nil {
		return p, err
	}
	p.AuthAt, p.GroupsAt, p.CreatedAt, p.SeenAt, p.ExpiresAt = fromMillis(at[0]), fromMillis(at[1]), fromMillis(at[2]), fromMillis(at[3]), fromMillis(at[4])
	return p, errors.Join(json.Unmarshal([]byte(roles), &p.Roles), json.Unmarshal([]byte(groups), &p.Groups), json.Unmarshal([]byte(also), &p.Also))
}

// SeeSession implements people.Store.
func (s *peopleStore) SeeSession(ctx context.Context, id string, at time.Time) error {
	err := s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		n, err := sess.exec(ctx, "UPDATE sessions SET seen_at = ? WHERE id = ?", millis(at), id)
		if err == nil && n == 0 {
			refused = people.ErrNone
		}
		return refused, err
	})
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	return nil
}

// EndAllSessions removes the sessions of all people and returns their number.
func (s *peopleStore) EndAllSessions(ctx context.Context) (ended int, err error) {
	err = s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		n, err := sess.exec(ctx, "DELETE FROM sessions")
		ended = int(n)
		return nil, err
	})
	if err != nil {
		return 0, fmt.Errorf("ending sessions: %w", err)
	}
	return ended, nil
}

// EndSessions implements people.Store.
func (s *peopleStore) EndSessions(ctx context.Context, person string, ids ...string) (ended int, err error) {
	w := &where{}
	w.add("person = ?", person)
	w.in("id", ids)
	err = s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		n, err := sess.exec(ctx, "DELETE FROM sessions"+w.String(), w.args...)
		ended = int(n)
		return nil, err
	})
	if err != nil {
		return 0, fmt.Errorf("ending sessions: %w", err)
	}
	return ended, nil
}
