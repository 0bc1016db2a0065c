package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/notify"
)

// outboxStore keeps notifications until their channel has accepted them.
type outboxStore struct {
	engine *engine

	secrets *secretStore
}

var _ notify.Outbox = (*outboxStore)(nil)

// TakeMessages implements notify.Outbox. The UPDATE repeats the condition: when two
// replicas chose the same message, the later one finds it claimed.
func (ob *outboxStore) TakeMessages(ctx context.Context, channel string, now, hold time.Time, n int) ([]notify.Taken, error) {
	if channel == "" || now.IsZero() || !hold.After(now) || n < 1 || n > 100 {
		return nil, errors.New("take: a channel, a claim that ends after now, and 1 to 100 messages are required")
	}
	const free = "state = 'waiting' AND claimed_until <= ?"
	var out []notify.Taken
	at := millis(now)
	due, err := exists(ctx, ob.engine.read(), "SELECT 1 FROM notifications WHERE channel = ? AND send_at <= ? AND "+free+" LIMIT 1", channel, at, at)
	if err == nil && due { // most calls find no due message and then write nothing
		err = ob.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
			out, err = collect(ctx, sess, "UPDATE notifications SET fence = fence + 1, claimed_until = ? WHERE "+free+
				" AND id IN (SELECT id FROM notifications WHERE channel = ? AND send_at <= ? AND "+free+" ORDER BY send_at, id LIMIT ?) "+
				"RETURNING id, channel, person, address, digest, items, created_at, until_at, attempts, fence",
				[]any{millis(hold), at, channel, at, at, n}, scanTaken)
			sess.writes += len(out)
			return nil, err
		})
	}
	for i := range out {
		if err != nil {
			break
		}
		err = ob.fillMessage(ctx, &out[i])
	}
	if err != nil {
		return nil, fmt.Errorf("take: %w", ob.engine.explain(err))
	}
	return out, nil
}

func scanTaken(row scan) (notify.Taken, error) {
	var t notify.Taken
	var digest, items, created, until int64
	err := row(&t.ID, &t.Channel, &t.Person, &t.Address, &digest, &items, &created, &until, &t.Attempts, &t.Fence)
	t.Digest, t.More, t.Created, t.Until = digest != 0, int(items), fromMillis(created), fromMillis(until)
	return t, err
}

// fillMessage reads the items of a message. It counts items that are not stored in More.
func (ob *outboxStore) fillMessage(ctx context.Context, t *notify.Taken) (err error) {
	t.Items, err = collect(ctx, ob.engine.read(), "SELECT until_at, notice FROM notification_items WHERE notification_id = ? ORDER BY id LIMIT ?", []any{t.ID, notify.MaxItems},
		func(row scan) (notify.Item, error) {
			i := notify.Item{Recipient: t.Recipient, Digest: t.Digest}
			var until int64
			var text string
			if err := row(&until, &text); err != nil {
				return i, err
			}
			i.Until = fromMillis(until)
			return i, json.Unmarshal([]byte(text), &i.Notice)
		})
	t.More = max(t.More-len(t.Items), 0)
	return err
}

// SettleMessage implements notify.Outbox.
func (ob *outboxStore) SettleMessage(ctx context.Context, o notify.Outcome) error {
	if o.ID == "" || o.At.IsZero() || (o.State == notify.StateWaiting) != !o.Next.IsZero() {
		return errors.New("outcome: a message id and a time are required, and the next attempt's time if and only if the state is waiting")
	}
	text, args := "UPDATE notifications SET state = ?, settled_at = ?, attempts = attempts + 1, claimed_until = 0", []any{string(o.State), millis(o.At)}
	switch o.State {
	case notify.StateWaiting:
		text, args = "UPDATE notifications SET state = ?, send_at = ?, attempts = attempts + 1, claimed_until = 0", []any{string(o.State), millis(o.Next)}
	case notify.StateSent, notify.StateFailed, notify.StateDropped:
	default:
		return fmt.Errorf("outcome: state %q is not supported; use waiting, sent, failed or dropped", o.State)
	}
	err := ob.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		n, err := sess.exec(ctx, text+" WHERE id = ? AND fence = ? AND state = 'waiting'", append(args, o.ID, o.Fence)...)
		if err == nil && n == 0 {
			refused = notify.ErrStale
		}
		return refused, err
	})
	if err != nil {
		return fmt.Errorf("outcome: %w", err)
	}
	return nil
}

// Sent implements notify.Outbox.
func (ob *outboxStore) Sent(ctx context.Context, subject string, now time.Time) ([]notify.Sent, error) {
	out, err := collect(ctx, ob.engine.read(), "SELECT n.channel, CASE n.person WHEN '' THEN 0 ELSE 1 END AS of_people, n.state, count(DISTINCT n.id), max(n.settled_at) "+
		"FROM notification_items i JOIN notifications n ON n.id = i.notification_id "+
		"WHERE i.subject = ? AND i.event IN (?, ?) AND (n.state IN ('sent', 'failed') OR n.state = 'waiting' AND n.send_at <= ?) GROUP BY n.channel, of_people, n.state ORDER BY n.channel, of_people, n.state",
		[]any{subject, string(notify.Waiting), string(notify.Escalated), millis(now)}, func(row scan) (m notify.Sent, err error) {
			var of, at int64
			err = row(&m.Channel, &of, &m.State, &m.N, &at)
			if m.People = of != 0; m.State != notify.StateWaiting {
				m.At = fromMillis(at)
			}
			return m, err
		})
	if err != nil {
		return nil, fmt.Errorf("sent: %w", ob.engine.explain(err))
	}
	return out, nil
}

// Backlogs implements notify.Outbox.
func (ob *outboxStore) Backlogs(ctx context.Context, now time.Time) ([]notify.Backlog, error) {
	out, err := collect(ctx, ob.engine.read(), "SELECT channel, count(*), min(send_at) FROM notifications WHERE state = 'waiting' AND send_at <= ? GROUP BY channel ORDER BY channel", []any{millis(now)},
		func(row scan) (b notify.Backlog, err error) {
			var oldest int64
			err = row(&b.Channel, &b.Waiting, &oldest)
			b.Oldest = fromMillis(oldest)
			return b, err
		})
	if err != nil {
		return nil, fmt.Errorf("backlogs: %w", ob.engine.explain(err))
	}
	return out, nil
}

// forgetMost is the maximum number of messages of one removal: it blocks other writes.
const forgetMost = 1000

// ForgetMessages implements notify.Outbox.
func (ob *outboxStore) ForgetMessages(ctx context.Context, before time.Time) error {
	err := ob.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		const old = "SELECT id FROM notifications WHERE state <> 'waiting' AND settled_at < ? ORDER BY settled_at, id LIMIT ?"
		if _, err := sess.exec(ctx, "DELETE FROM notification_items WHERE notification_id IN ("+old+")", millis(before), forgetMost); err != nil {
			return nil, err
		}
		_, err = sess.exec(ctx, "DELETE FROM notifications WHERE id IN ("+old+")", millis(before), forgetMost)
		return nil, err
	})
	if err != nil {
		return fmt.Errorf("forgetting notifications: %w", err)
	}
	return nil
}

var _ notify.Sources = (*outboxStore)(nil)

// ReadFromHere implements notify.Sources.
func (ob *outboxStore) ReadFromHere(ctx context.Context) error {
	err := ob.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		begun, err := exists(ctx, sess, "SELECT 1 FROM notification_cursors LIMIT 1")
		if err != nil || begun {
			return nil, err
		}
		_, err = sess.exec(ctx, "INSERT INTO notification_cursors (writer, seq) SELECT w.writer, coalesce((SELECT max(e.seq) FROM audit_entries e WHERE e.writer = w.writer), 0) "+
			"FROM audit_writers w WHERE w.writer <> '' ON CONFLICT (writer) DO NOTHING")
		return nil, err
	})
	if err != nil {
		return fmt.Errorf("notifications: %w", err)
	}
	return nil
}

// Unread implements notify.Sources. The entries of one writer are numbered in the order
// of its commits, so no entry appears behind a cursor later.
func (ob *outboxStore) Unread(ctx context.Context, kinds []string, n int) ([]notify.Reading, error) {
	if len(kinds) == 0 || n < 1 {
		return nil, errors.New("unread: it needs kinds and a number")
	}
	all, err := collect(ctx, ob.engine.read(), "SELECT writer, seq, last FROM (SELECT w.writer AS writer, coalesce(c.seq, 0) AS seq, "+
		"coalesce((SELECT max(e.seq) FROM audit_entries e WHERE e.writer = w.writer), 0) AS last "+
		"FROM audit_writers w LEFT JOIN notification_cursors c ON c.writer = w.writer) o WHERE last > seq ORDER BY writer", nil,
		func(row scan) (r notify.Reading, err error) { return r, row(&r.Writer, &r.From, &r.To) })
	for i := range all {
		if err != nil {
			break
		}
		r := &all[i]
		r.To = min(r.To, r.From+int64(n))
		w := &where{}
		w.add("writer = ? AND seq > ? AND seq <= ?", r.Writer, r.From, r.To)
		ofKinds(w, kinds)
		r.Entries, err = collect(ctx, ob.engine.read(), "SELECT "+entryColumns+" FROM audit_entries"+w.String()+" ORDER BY seq", w.args, scanEntry)
	}
	if err != nil {
		return nil, fmt.Errorf("unread: %w", ob.engine.explain(err))
	}
	return all, nil
}

// ofKinds selects entries of these kinds. A kind that ends in "." is a prefix.
func ofKinds(w *where, kinds []string) {
	var conds []string
	var args []any
	for _, k := range kinds {
		if strings.HasSuffix(k, ".") {
			conds, args = append(conds, "kind LIKE ?"), append(args, k+"%")
		} else {
			conds, args = append(conds, "kind = ?"), append(args, k)
		}
	}
	w.add("("+strings.Join(conds, " OR ")+")", args...)
}

// Keep implements notify.Sources.
func (ob *outboxStore) Keep(ctx context.Context, p notify.Plan) error {
	read := p.Writer != ""
	if read != (p.To > p.From) || p.Now.IsZero() || len(p.Items) > 0 && p.Window <= 0 {
		return errors.New("plan: Now and, with items, Window are required; a reading needs a writer, and To after From")
	}
	err := ob.secrets.change(ctx, func(ctx context.Context, sess *session) (refused, err error) {
		if read {
			n, err := sess.exec(ctx, "INSERT INTO notification_cursors (writer, seq) VALUES (?, ?) ON CONFLICT (writer) DO UPDATE SET seq = excluded.seq WHERE notification_cursors.seq = ?", p.Writer, p.To, p.From)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				return notify.ErrStale, nil
			}
		}
		for _, i := range p.Items {
			if err := keepItem(ctx, sess, p, i); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return nil
}

// keepItem adds an item to its message. When delivery of its digest has begun, the item
// goes into the next digest.
func keepItem(ctx context.Context, sess *session, p notify.Plan, i notify.Item) error {
	text, err := json.Marshal(i.Notice)
	if err != nil {
		return err
	}
	if err := storable(i.Channel, i.Person, i.Address, i.Notice.Subject, string(text)); err != nil {
		return err
	}
	told, err := exists(ctx, sess, "SELECT 1 FROM notification_items WHERE id = ?", i.ID())
	if err != nil || told {
		return err
	}
	if !i.Digest && p.Most > 0 && !i.Notice.Event.Must() {
		crowded, err := exists(ctx, sess, "SELECT 1 FROM notifications WHERE channel = ? AND person = ? AND created_at > ? AND digest = 0 LIMIT 1 OFFSET ?",
			i.Channel, i.Person, millis(p.Now.Add(-p.Window)), p.Most-1)
		if err != nil {
			return err
		}
		if crowded {
			i.Digest, i.SendAt = true, later(i.SendAt, p.Now).Truncate(p.Window).Add(p.Window)
		}
	}
	for range 3 {
		n, err := sess.exec(ctx, "INSERT INTO notifications (id, channel, person, address, digest, items, created_at, send_at, until_at, state, attempts, fence, claimed_until, settled_at) "+
			"VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, 'waiting', 0, 0, 0, 0) ON CONFLICT (id) DO UPDATE SET items = notifications.items + 1, "+
			"until_at = CASE WHEN notifications.until_at > excluded.until_at THEN notifications.until_at ELSE excluded.until_at END "+
			"WHERE notifications.state = 'waiting' AND notifications.fence = 0 AND notifications.digest = 1",
			i.MessageID(), i.Channel, i.Person, i.Address, flag(i.Digest), millis(p.Now), millis(i.SendAt), millis(i.Until))
		if err != nil {
			return err
		}
		if n == 1 {
			_, err = sess.exec(ctx, "INSERT INTO notification_items (id, notification_id, subject, event, until_at, notice) SELECT ?, n.id, ?, ?, ?, ? FROM notifications n WHERE n.id = ? AND n.items <= ? "+
				"ON CONFLICT (id) DO NOTHING", i.ID(), i.Notice.Subject, string(i.Notice.Event), millis(i.Until), string(text), i.MessageID(), notify.MaxItems)
			return err
		}
		if !i.Digest {
			return nil // the message exists from an earlier time, and its item was forgotten
		}
		i.SendAt = i.SendAt.Add(p.Window)
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Told implements notify.Sources.
func (ob *outboxStore) Told(ctx context.Context, subject string) ([]notify.Recipient, error) {
	out, err := collect(ctx, ob.engine.read(), "SELECT DISTINCT n.channel, n.person, n.address FROM notification_items i JOIN notifications n ON n.id = i.notification_id "+
		"WHERE i.subject = ? AND i.event IN (?, ?) AND (n.state = 'sent' OR n.state = 'waiting' AND n.fence > 0) ORDER BY n.channel, n.person",
		[]any{subject, string(notify.Waiting), string(notify.Escalated)}, func(row scan) (r notify.Recipient, err error) {
			return r, row(&r.Channel, &r.Person, &r.Address)
		})
	if err != nil {
		return nil, fmt.Errorf("told: %w", ob.engine.explain(err))
	}
	return out, nil
}
