package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
)

const breakGlassColumns = "id, person, also, incident, reason, ttl, most, asked_at, proof, proved_at, acr, begun_at, ends_at, ended_at, ended_by, used, reviewed_at, reviewed_by, note"

// BeginBreakGlass implements broker.BreakGlassStore.
func (s *Store) BeginBreakGlass(ctx context.Context, g broker.BreakGlass, since time.Time, most int, e audit.Entry) error {
	also, err := json.Marshal(g.Also)
	if err != nil {
		return err
	}
	if g.ID == "" || g.Person == "" || g.BegunAt.IsZero() || !g.EndsAt.After(g.BegunAt) || storable(g.ID, g.Person, string(also), g.Incident, g.Reason, g.Proof, g.ACR) != nil {
		return errors.New("break-glass: it needs an id, a person and times, in UTF-8")
	}
	drafts, err := draft([]audit.Entry{e})
	if err != nil {
		return err
	}
	begun := millis(g.BegunAt)
	err = s.com.do(ctx, &unit{work: func(ctx context.Context, sess *session, u *unit) error {
		u.entries = nil
		var n int64
		counts, err := collect(ctx, sess, "SELECT COUNT(*) FROM break_glass WHERE person = ? AND begun_at > ?", []any{g.Person, millis(since)}, func(row scan) (n int64, err error) { return n, row(&n) })
		if err != nil {
			return err
		}
		if n = counts[0]; n >= int64(most) {
			return fmt.Errorf("%d since then: %w", n, broker.ErrCap)
		}
		k, err := sess.exec(ctx, "INSERT INTO break_glass ("+breakGlassColumns+") VALUES ("+marks(19)+") ON CONFLICT DO NOTHING",
			g.ID, g.Person, string(also), g.Incident, g.Reason, int64(g.TTL), g.Most, millis(g.AskedAt), g.Proof, millis(g.AuthAt), g.ACR, begun, millis(g.EndsAt), 0, "", 0, 0, "", "")
		if err != nil {
			return err
		}
		if k == 0 {
			return fmt.Errorf("one is open, or what proves it was used: %w", broker.ErrExists)
		}
		u.entries = drafts
		return nil
	}})
	if err != nil {
		return fmt.Errorf("beginning a break-glass: %w", err)
	}
	return nil
}

// EndBreakGlass implements broker.BreakGlassStore.
func (s *Store) EndBreakGlass(ctx context.Context, id, by string, at time.Time, e audit.Entry) (broker.BreakGlass, error) {
	return s.moveBreakGlass(ctx, id, e, "UPDATE break_glass SET ended_at = ?, ended_by = ? WHERE ended_at = 0 AND id = ?", millis(at), by, id)
}

// ReviewBreakGlass implements broker.BreakGlassStore.
func (s *Store) ReviewBreakGlass(ctx context.Context, id, by, note string, at time.Time, e audit.Entry) (broker.BreakGlass, error) {
	if err := storable(by, note); err != nil {
		return broker.BreakGlass{}, err
	}
	return s.moveBreakGlass(ctx, id, e, "UPDATE break_glass SET reviewed_at = ?, reviewed_by = ?, note = ? WHERE reviewed_at = 0 AND id = ?", millis(at), by, note, id)
}

// moveBreakGlass runs a statement that exactly one caller wins.
func (s *Store) moveBreakGlass(ctx context.Context, id string, e audit.Entry, text string, args ...any) (out broker.BreakGlass, err error) {
	drafts, err := draft([]audit.Entry{e})
	if err != nil {
		return out, err
	}
	err = s.com.do(ctx, &unit{work: func(ctx context.Context, sess *session, u *unit) error {
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
		out, u.entries = found[0], drafts
		return nil
	}})
	if err != nil {
		return out, fmt.Errorf("break-glass: %w", err)
	}
	return out, nil
}

// BreakGlasses implements broker.BreakGlassStore.
func (s *Store) BreakGlasses(ctx context.Context, f broker.BreakGlassFilter) ([]broker.BreakGlass, error) {
	if f.Limit < 0 || f.Limit > maxLimit {
		return nil, fmt.Errorf("break-glass: a page of %d: ask for 1 to %d", f.Limit, maxLimit)
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
	if f.Unended {
		w.add("ended_at = 0")
	}
	if f.After != "" {
		w.add("id < ?", f.After)
	}
	out, err := collect(ctx, s.engine.read(), "SELECT "+breakGlassColumns+" FROM break_glass"+w.String()+fmt.Sprintf(" ORDER BY id DESC LIMIT %d", n), w.args, scanBreakGlass)
	if err != nil {
		return nil, fmt.Errorf("break-glass: %w", s.engine.explain(err))
	}
	return out, nil
}

func scanBreakGlass(row scan) (g broker.BreakGlass, err error) {
	var also string
	var asked, proved, begun, ends, ended, reviewed int64
	if err := row(&g.ID, &g.Person, &also, &g.Incident, &g.Reason, &g.TTL, &g.Most, &asked, &g.Proof, &proved, &g.ACR, &begun, &ends, &ended, &g.EndedBy, &g.Used, &reviewed, &g.ReviewedBy, &g.Note); err != nil {
		return g, err
	}
	g.AskedAt, g.AuthAt = fromMillis(asked), fromMillis(proved)
	g.BegunAt, g.EndsAt, g.EndedAt, g.ReviewedAt = fromMillis(begun), fromMillis(ends), fromMillis(ended), fromMillis(reviewed)
	return g, json.Unmarshal([]byte(also), &g.Also)
}

// useBreakGlass counts one approval of a voter under a period that is open: the row keeps
// out an end that comes at the same moment.
func useBreakGlass(ctx context.Context, s *session, v broker.Vote) error {
	at := millis(v.At)
	n, err := s.exec(ctx, "UPDATE break_glass SET used = used + 1 WHERE id = ? AND person = ? AND ended_at = 0 AND reviewed_at = 0 AND begun_at <= ? AND ends_at > ? AND used < most", v.BreakGlass, v.By, at, at)
	if err == nil && n == 0 {
		err = fmt.Errorf("break-glass %s: %w", v.BreakGlass, broker.ErrNotFound)
	}
	return err
}
