package sqlstore

import (
	"context"
	"encoding/hex"
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

var (
	_ people.PasskeyStore = (*peopleStore)(nil)
	_ people.PasskeyNames = (*peopleStore)(nil)
)

const passkeyColumns = "id, person, name, public_key, uses, synced, created_at, used_at"

// AddPasskey implements people.PasskeyStore.
func (s *peopleStore) AddPasskey(ctx context.Context, p people.Passkey) error {
	if len(p.ID) == 0 || len(p.ID) > 1023 || len(p.PublicKey) == 0 || p.Person == "" || p.CreatedAt.IsZero() || storable(p.Person, p.Name) != nil {
		return errors.New("passkey: an id of 1 to 1023 bytes, a key, a person and a time are required, with texts in UTF-8")
	}
	err := s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		_, err = sess.exec(ctx, "INSERT INTO passkeys ("+passkeyColumns+") VALUES ("+marks(8)+")",
			hex.EncodeToString(p.ID), p.Person, p.Name, hex.EncodeToString(p.PublicKey), int64(p.Count), flag(p.Synced), millis(p.CreatedAt), millis(p.UsedAt))
		return nil, err
	})
	if err != nil {
		return fmt.Errorf("keeping a passkey: %w", err)
	}
	return nil
}

// Passkeys implements people.PasskeyStore.
func (s *peopleStore) Passkeys(ctx context.Context, person string) ([]people.Passkey, error) {
	found, err := collect(ctx, s.engine.read(), "SELECT "+passkeyColumns+" FROM passkeys WHERE person = ? ORDER BY created_at, id", []any{person}, scanPasskey)
	if err != nil {
		return nil, fmt.Errorf("passkeys: %w", s.engine.explain(err))
	}
	return found, nil
}

func scanPasskey(row scan) (people.Passkey, error) {
	var p people.Passkey
	var id, key string
	var count, synced, created, used int64
	if err := row(&id, &p.Person, &p.Name, &key, &count, &synced, &created, &used); err != nil {
		return p, err
	}
	var errs [2]error
	p.ID, errs[0] = hex.DecodeString(id)
	p.PublicKey, errs[1] = hex.DecodeString(key)
	p.Count, p.Synced, p.CreatedAt, p.UsedAt = uint32(count), synced != 0, fromMillis(created), fromMillis(used) //nolint:gosec // G115: it was one
	return p, errors.Join(errs[:]...)
}

// UsePasskey implements people.PasskeyStore. Of two concurrent uses with one count, one
// wins.
func (s *peopleStore) UsePasskey(ctx context.Context, person string, id []byte, count uint32, at time.Time) error {
	return s.onPasskey(ctx, person, id, people.ErrCounted, "UPDATE passkeys SET uses = ?, used_at = ? WHERE (uses < ? OR (uses = 0 AND ? = 0)) AND id = ? AND person = ?",
		int64(count), millis(at), int64(count), int64(count))
}

// RenamePasskey implements people.PasskeyNames.
func (s *peopleStore) RenamePasskey(ctx context.Context, person string, id []byte, name string) error {
	if err := storable(name); err != nil {
		return fmt.Errorf("passkey: %w", err)
	}
	return s.onPasskey(ctx, person, id, people.ErrNoPasskey, "UPDATE passkeys SET name = ? WHERE id = ? AND person = ?", name)
}

// RemovePasskey implements people.PasskeyStore.
func (s *peopleStore) RemovePasskey(ctx context.Context, person string, id []byte) error {
	return s.onPasskey(ctx, person, id, people.ErrNoPasskey, "DELETE FROM passkeys WHERE id = ? AND person = ?")
}

// onPasskey runs a statement whose last parameters are the id and the person. It returns
// untouched when the passkey exists but the statement changed no row.
func (s *peopleStore) onPasskey(ctx context.Context, person string, id []byte, untouched error, text string, args ...any) error {
	name := hex.EncodeToString(id)
	err := s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		n, err := sess.exec(ctx, text, append(args, name, person)...)
		if err != nil || n > 0 {
			return nil, err
		}
		there, err := exists(ctx, sess, "SELECT 1 FROM passkeys WHERE id = ? AND person = ?", name, person)
		if !there {
			return people.ErrNoPasskey, err
		}
		return untouched, err
	})
	if err != nil {
		return fmt.Errorf("passkey: %w", err)
	}
	return nil
}

var _ people.ReachStore = (*peopleStore)(nil)

const (
	reachColumns = "person, mail, roles, in_groups, also, seen_at, wishes"
	readReach    = "SELECT " + reachColumns + ", (SELECT COUNT(*) FROM push_subscriptions p WHERE p.person = reach.person) FROM reach"
)

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
	preferences, err := json.Marshal(people.DefaultPreferences())
	if err != nil {
		return err
	}
	err = s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		_, err = sess.exec(ctx, "INSERT INTO reach ("+reachColumns+") VALUES ("+marks(7)+") ON CONFLICT (person) DO UPDATE SET "+
			"mail = excluded.mail, roles = excluded.roles, in_groups = excluded.in_groups, also = excluded.also, seen_at = excluded.seen_at",
			r.Person, r.Mail, lists[0], lists[1], lists[2], millis(r.SeenAt), string(preferences))
		return nil, err
	})
	if err != nil {
		return fmt.Errorf("reach: %w", err)
	}
	return nil
}

// ChangePreferences implements people.ReachStore. The first statement locks the row, so that no
// concurrent change is lost.
func (s *peopleStore) ChangePreferences(ctx context.Context, person string, change func(*people.Preferences) error) error {
	err := s.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		if _, err := sess.exec(ctx, "UPDATE reach SET wishes = wishes WHERE person = ?", person); err != nil {
			return nil, err
		}
		found, err := collect(ctx, sess, readReach+" WHERE person = ?", []any{person}, scanReach)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return people.ErrNone, nil
		}
		w := found[0].Preferences
		if refused = change(&w); refused == nil {
			refused = w.Check()
		}
		if refused != nil {
			return refused, nil
		}
		text, err := json.Marshal(w)
		if err != nil {
			return nil, err
		}
		_, err = sess.exec(ctx, "UPDATE reach SET wishes = ? WHERE person = ?", string(text), person)
		return nil, err
	})
	if err != nil {
		return fmt.Errorf("preferences: %w", err)
	}
	return nil
}

// Reach implements people.ReachStore.
func (s *peopleStore) Reach(ctx context.Context, person string) (people.Reach, error) {
	found, err := collect(ctx, s.engine.read(), readReach+" WHERE person = ?", []any{person}, scanReach)
	return single(found, s.engine.explain(err), "reach", people.ErrNone)
}

// Reachable implements people.ReachStore.
func (s *peopleStore) Reachable(ctx context.Context, since time.Time) ([]people.Reach, error) {
	found, err := collect(ctx, s.engine.read(), readReach+" WHERE seen_at >= ? ORDER BY seen_at DESC, person LIMIT ?",
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
	if err := row(&r.Person, &r.Mail, &roles, &groups, &also, &seen, &wishes, &r.Browsers); err != nil {
		return r, err
	}
	r.SeenAt = fromMillis(seen)
	return r, errors.Join(json.Unmarshal([]byte(roles), &r.Roles), json.Unmarshal([]byte(groups), &r.Groups), json.Unmarshal([]byte(also), &r.Also), json.Unmarshal([]byte(wishes), &r.Preferences))
}
