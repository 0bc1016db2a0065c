package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/people"
)

// emergencyStore stores break-glass periods.
type emergencyStore struct {
	com    *committer
	engine *engine
}

const breakGlassColumns = "id, person, also, incident, reason, ttl, most, asked_at, proof, proved_at, acr, begun_at, ends_at, ended_at, ended_by, used, reviewed_at, reviewed_by, note, session, in_groups"

// BeginBreakGlass implements broker.BreakGlassStore.
func (em *emergencyStore) BeginBreakGlass(ctx context.Context, g broker.BreakGlass, since time.Time, most int, e audit.Entry) error {
	also, err1 := json.Marshal(g.Also)
	groups, err2 := json.Marshal(g.Groups)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if g.ID == "" || g.Person == "" || g.Session == "" || g.BegunAt.IsZero() || !g.EndsAt.After(g.BegunAt) ||
		storable(g.ID, g.Person, g.Session, string(also), string(groups), g.Incident, g.Reason, g.Proof, g.ACR) != nil {
		return errors.New("break-glass: it needs an id, a person, a session and times, in UTF-8")
	}
	drafts, err := draft([]audit.Entry{e})
	if err != nil {
		return err
	}
	err = em.com.do(ctx, &unit{work: func(ctx context.Context, sess *session, u *unit) error {
		u.entries = nil
		if err := mayBegin(ctx, sess, g, since, most); err != nil {
			return err
		}
		k, err := sess.exec(ctx, "INSERT INTO break_glass ("+breakGlassColumns+") VALUES ("+marks(21)+") ON CONFLICT DO NOTHING",
			g.ID, g.Person, string(also), g.Incident, g.Reason, int64(g.TTL), g.Most, millis(g.AskedAt), g.Proof, millis(g.AuthAt), g.ACR,
			millis(g.BegunAt), millis(g.EndsAt), 0, "", 0, 0, "", "", g.Session, string(groups))
		if err != nil {
			return err
		}
		if k == 0 {
			return fmt.Errorf("another period is open, or its proof was used before: %w", broker.ErrExists)
		}
		u.entries = drafts
		return nil
	}})
	if err != nil {
		return fmt.Errorf("beginning a break-glass: %w", err)
	}
	return nil
}

// beginning is the key of the advisory lock that serializes the beginning of break-glass
// periods. A constraint cannot do it: two names may belong to one person.
const beginning = 0x6562622d676c6173

// mayBegin waits for concurrent beginnings and writes to the row of the session. A
// concurrent end of the session therefore waits for mayBegin, or mayBegin waits and then
// finds no row.
func mayBegin(ctx context.Context, sess *session, g broker.BreakGlass, since time.Time, most int) error {
	if sess.e.lock != "" {
		if _, err := sess.exec(ctx, "SELECT pg_advisory_xact_lock(?)", int64(beginning)); err != nil {
			return err
		}
	}
	n, err := sess.exec(ctx, "UPDATE sessions SET seen_at = seen_at WHERE id = ? AND person = ? AND expires_at > ?", g.Session, g.Person, millis(g.BegunAt))
	if err == nil && n == 0 {
		err = fmt.Errorf("the session has ended: %w", broker.ErrNotFound)
	}
	if err != nil {
		return err
	}
	recent, err := collect(ctx, sess, "SELECT "+breakGlassColumns+" FROM break_glass WHERE begun_at > ? OR ended_at = 0", []any{millis(since)}, scanBreakGlass)
	if err != nil {
		return err
	}
	begun := 0
	for _, o := range recent {
		switch {
		case !g.SamePerson(o):
		case o.EndedAt.IsZero():
			return fmt.Errorf("another period is open: %w", broker.ErrExists)
		default:
			begun++
		}
	}
	if begun >= most {
		return fmt.Errorf("%d periods have begun in the window: %w", begun, broker.ErrCap)
	}
	return nil
}

// EndBreakGlass implements broker.BreakGlassStore.
func (em *emergencyStore) EndBreakGlass(ctx context.Context, id, by string, at time.Time, entry broker.BreakGlassEntry) (broker.BreakGlass, error) {
	return em.moveBreakGlass(ctx, id, entry, "UPDATE break_glass SET ended_at = ?, ended_by = ? WHERE ended_at = 0 AND id = ?", millis(at), by, id)
}

// ReviewBreakGlass implements broker.BreakGlassStore.
func (em *emergencyStore) ReviewBreakGlass(ctx context.Context, id, by, note string, at time.Time, entry broker.BreakGlassEntry) (broker.BreakGlass, error) {
	if err := storable(by, note); err != nil {
		return broker.BreakGlass{}, err
	}
	return em.moveBreakGlass(ctx, id, entry, "UPDATE break_glass SET reviewed_at = ?, reviewed_by = ?, note = ? WHERE reviewed_at = 0 AND id = ?", millis(at), by, note, id)
}

// moveBreakGlass runs an UPDATE that only one caller can win, and writes an audit entry
// of the row after it. No later approval can be counted under the period.
func (em *emergencyStore) moveBreakGlass(ctx context.Context, id string, entry broker.BreakGlassEntry, text string, args ...any) (out broker.BreakGlass, err error) {
	err = em.com.do(ctx, &unit{work: func(ctx context.Context, sess *session, u *unit) error {
		u.entries = nil
		n, err := sess.exec(ctx, text, args...)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("break-glass %s: %w", id, broker.ErrDone)
		}
		found, err := collect(ctx, sess, "SELECT "+breakGlassColumns+" FROM break_glass WHERE id = ?", []any{id}, scanBreakGlass)
		if err != nil {
			return err
		}
		out = found[0]
		u.entries, err = draft([]audit.Entry{entry(out)})
		return err
	}})
	if err != nil {
		return out, fmt.Errorf("break-glass: %w", err)
	}
	return out, nil
}

// BreakGlasses implements broker.BreakGlassStore.
func (em *emergencyStore) BreakGlasses(ctx context.Context, f broker.BreakGlassFilter) ([]broker.BreakGlass, error) {
	if f.Limit < 0 || f.Limit > maxLimit {
		return nil, fmt.Errorf("break-glass: the limit is %d: ask for 1 to %d", f.Limit, maxLimit)
	}
	n := f.Limit
	if n == 0 {
		n = defaultLimit
	}
	var w where
	w.equal("id", f.ID)
	w.equal("person", f.Person)
	if f.Unreviewed {
		w.add("reviewed_at = 0")
	}
	if names := f.ReviewedOf; len(names) > 0 {
		args := make([]any, len(names))
		for i, n := range names {
			args[i] = people.Folded(n)
		}
		w.add("(reviewed_at = 0 OR lower(person) IN ("+marks(len(names))+"))", args...)
	}
	if f.Unended {
		w.add("ended_at = 0")
	}
	if f.After != "" {
		w.add("id < ?", f.After)
	}
	out, err := collect(ctx, em.engine.read(), "SELECT "+breakGlassColumns+" FROM break_glass"+w.String()+fmt.Sprintf(" ORDER BY id DESC LIMIT %d", n), w.args, scanBreakGlass)
	if err != nil {
		return nil, fmt.Errorf("break-glass: %w", em.engine.explain(err))
	}
	return out, nil
}

func scanBreakGlass(row scan) (g broker.BreakGlass, err error) {
	var also, groups string
	var asked, proved, begun, ends, ended, reviewed int64
	if err := row(&g.ID, &g.Person, &also, &g.Incident, &g.Reason, &g.TTL, &g.Most, &asked, &g.Proof, &proved, &g.ACR, &begun, &ends, &ended, &g.EndedBy, &g.Used, &reviewed, &g.ReviewedBy, &g.Note, &g.Session, &groups); err != nil {
		return g, err
	}
	g.AskedAt, g.AuthAt = fromMillis(asked), fromMillis(proved)
	g.BegunAt, g.EndsAt, g.EndedAt, g.ReviewedAt = fromMillis(begun), fromMillis(ends), fromMillis(ended), fromMillis(reviewed)
	return g, errors.Join(json.Unmarshal([]byte(also), &g.Also), json.Unmarshal([]byte(groups), &g.Groups))
}

// useBreakGlass counts one approval of a voter under an open period. The row lock
// excludes a concurrent end of the period.
func useBreakGlass(ctx context.Context, s *session, v broker.Vote) error {
	at, begun := millis(v.At), millis(v.At.Add(broker.ClockSkew))
	n, err := s.exec(ctx, "UPDATE break_glass SET used = used + 1 WHERE id = ? AND person = ? AND ended_at = 0 AND reviewed_at = 0 AND begun_at <= ? AND ends_at > ? AND used < most", v.BreakGlass, v.By, begun, at)
	if err == nil && n == 0 {
		err = fmt.Errorf("break-glass %s: %w", v.BreakGlass, broker.ErrNotFound)
	}
	return err
}
