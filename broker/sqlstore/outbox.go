package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
