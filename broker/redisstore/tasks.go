package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
)

// taskKeys stores open tasks and the times at which they are due.
type taskKeys struct {
	keys keys

	cmds *commands
	feed *feedStream
	gate *gateway
	loss *lossGuard
}

// PutTask implements broker.TaskTable. A known task keeps the stricter of the two states,
// the higher counters, its due time and its sandbox. A closed task is published as if
// SetState had closed it.
func (tk *taskKeys) PutTask(ctx context.Context, l broker.Live, keep time.Time) error {
	level, err := rank(l.State)
	if err != nil {
		return err
	}
	if l.ID == "" {
		return fmt.Errorf("task without an id")
	}
	blob, err := encode(l.Task)
	if err != nil {
		return err
	}
	box, identity, err := encodeSandbox(l.Sandbox)
	if err != nil {
		return err
	}
	due, now := millis(l.Due), tk.cmds.now()
	added, err := tk.indexDue(ctx, "nx", l.ID, due)
	if err != nil {
		return err
	}
	args := putTaskScript.args(2, tk.keys.task(l.ID), tk.keys.leases(l.ID), level, blob, box, identity, due,
		l.Denials, l.Violations, millis(l.ClosedAt), keep.UnixMilli(), now, ttl(keep.UnixMilli(), now, margin), ownerTag(l.Task))
	for _, t := range l.Taint {
		args = append(args, t)
	}
	cmd := redis.NewSliceCmd(ctx, args...)
	if err := tk.cmds.run(ctx, cmd); err != nil {
		return err
	}
	r := reply(cmd.Val())
	if r.num(0) == 3 {
		if r.num(2) == 1 {
			return nil
		}
		return tk.publishClose(ctx, l.ID, r.num(3), r.num(4), ownerTag(l.Task))
	}
	// A known task keeps its own due time. An entry that existed before may be hidden by
	// a taker and is left unchanged.
	flag, held := "nx", r.num(1)
	if added && held < due {
		flag = "lt"
	}
	// Add the entry again in any case: Due may have found it without a task in the
	// meantime and removed it.
	_, err = tk.indexDue(ctx, flag, l.ID, held)
	return err
}

// SetState implements broker.TaskTable. Closing again returns the counts of the first
// close. first is true for every other move.
func (tk *taskKeys) SetState(ctx context.Context, id string, state broker.TaskState, at, keep time.Time) (broker.Counts, bool, error) {
	level, err := rank(state)
	if err != nil {
		return broker.Counts{}, false, err
	}
	key := tk.keys.task(id)
	cmd := redis.NewSliceCmd(ctx, setStateScript.args(2, key, tk.keys.leases(id), level, at.UnixMilli(), keep.UnixMilli(),
		ttl(keep.UnixMilli(), tk.cmds.now(), margin), tk.cmds.nonce())...)
	if level == 3 {
		err = tk.cmds.runDurably(ctx, key, cmd)
	} else {
		err = tk.cmds.run(ctx, cmd)
	}
	if err != nil {
		return broker.Counts{}, false, err
	}
	r := reply(cmd.Val())
	switch r.num(0) {
	case -1:
		return broker.Counts{}, false, tk.loss.absent(ctx, key, fmt.Errorf("task %s: %w", id, broker.ErrNotFound))
	case -2:
		return broker.Counts{}, false, fmt.Errorf("task %s: %w", id, broker.ErrTaskClosed)
	}
	c := broker.Counts{Live: int(r.num(1)), Expired: int(r.num(2))}
	switch {
	case level == 3 && r.num(3) == 0:
		err = tk.publishClose(ctx, id, r.num(4), r.num(5), r.text(6))
	case state == broker.TaskPaused:
		err = tk.feed.publish(ctx, id, broker.PauseMark, at.UnixMilli(), at.Add(broker.PauseKept).UnixMilli(), "")
	}
	if err != nil {
		return broker.Counts{}, false, err
	}
	return c, r.num(0) == 1, nil
}

// publishClose publishes a close that has already taken effect to the feed and the
// owner's counts, and then records that it did.
func (tk *taskKeys) publishClose(ctx context.Context, id string, at, keep int64, owner string) error {
	if err := tk.feed.publish(ctx, id, "", at, keep, owner); err != nil {
		return err
	}
	return tk.cmds.run(ctx, redis.NewIntCmd(ctx, "hset", tk.keys.task(id), "p", "1"), redis.NewIntCmd(ctx, "zrem", tk.keys.due(), id))
}

// Touch implements broker.TaskTable. An unknown task is ErrNotFound. Two sandboxes are
// the same if their id, attestor, subject and key are.
func (tk *taskKeys) Touch(ctx context.Context, id string, u broker.Touch) (broker.Live, error) {
	box, identity, err := encodeSandbox(u.Sandbox)
	if err != nil {
		return broker.Live{}, err
	}
	due := millis(u.Due)
	args := touchScript.args(1, tk.keys.task(id), due, u.Denials, u.Violations, box, identity)
	for _, t := range u.Taint {
		args = append(args, t)
	}
	cmd := redis.NewCmd(ctx, args...)
	if err := tk.cmds.run(ctx, cmd); err != nil {
		return broker.Live{}, err
	}
	switch cmd.Val() {
	case int64(-1):
		return broker.Live{}, tk.loss.absent(ctx, tk.keys.task(id), fmt.Errorf("task %s: %w", id, broker.ErrNotFound))
	case int64(-2):
		return broker.Live{}, fmt.Errorf("task %s: %w", id, broker.ErrTaskClosed)
	case int64(-3):
		return broker.Live{}, fmt.Errorf("task %s has another sandbox: %w", id, broker.ErrClaimed)
	}
	if _, err := tk.indexDue(ctx, "lt", id, due); err != nil {
		return broker.Live{}, err
	}
	text, _ := cmd.Val().(string)
	return tk.gate.live(ctx, id, text)
}

// reply is the answer of a script: integers, and integers as strings.
type reply []any

func (r reply) text(i int) string {
	if i >= len(r) {
		return ""
	}
	v, _ := r[i].(string)
	return v
}

func (r reply) num(i int) int64 {
	if i >= len(r) {
		return 0
	}
	switch v := r[i].(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64) // written by our own scripts
		return n
	}
	return 0
}

const (
	dueBatch  = 256
	dueRounds = 64 // maximum number of rounds of one call
)

// indexDue adds a task to the index, whose entries are never later than the time their
// task is due. flag is nx (only without an entry) or lt (only if earlier, or without an
// entry). A due of 0 means never.
func (tk *taskKeys) indexDue(ctx context.Context, flag, id string, due int64) (added bool, err error) {
	if due == 0 {
		return false, ctx.Err()
	}
	cmd := redis.NewIntCmd(ctx, "zadd", tk.keys.due(), flag, due, id)
	err = tk.cmds.run(ctx, cmd)
	return cmd.Val() == 1, err
}

// Due implements broker.TaskTable. A Touch that sets Due makes a hidden task visible
// again from that time on. The index only proposes tasks: Due corrects the entries of
// tasks whose time a heartbeat has moved, so that a heartbeat need not write to the
// index.
func (tk *taskKeys) Due(ctx context.Context, now, hold time.Time, n int) ([]string, error) {
	ms, until := now.UnixMilli(), hold.UnixMilli()
	if until <= ms {
		until = ms + 1 // a hold in the past must not cause an endless loop
	}
	var out []string
	for range dueRounds {
		want := min(n-len(out), dueBatch)
		if want <= 0 {
			break
		}
		cmd := redis.NewStringSliceCmd(ctx, takeDueScript.args(1, tk.keys.due(), ms, until, want)...)
		if err := tk.cmds.run(ctx, cmd); err != nil {
			return out, err
		}
		due, err := tk.confirm(ctx, cmd.Val(), ms, until)
		if err != nil {
			return out, err
		}
		out = append(out, due...)
		if len(cmd.Val()) < want {
			break
		}
	}
	return out, nil
}

// confirm returns the ids, hidden until hold, that are really due, and corrects the index
// entries of the others.
func (tk *taskKeys) confirm(ctx context.Context, ids []string, now, hold int64) (due []string, err error) {
	if len(ids) == 0 {
		return nil, tk.cmds.run(ctx)
	}
	looks := make([]redis.Cmder, len(ids))
	for i, id := range ids {
		looks[i] = redis.NewSliceCmd(ctx, "hmget", tk.keys.task(id), "s", "d", "p", "a", "k", "o")
	}
	if err := tk.cmds.run(ctx, looks...); err != nil {
		return nil, err
	}
	var fixes []redis.Cmder
	for i, id := range ids {
		r := reply(looks[i].(*redis.SliceCmd).Val())
		at := r.num(1)
		switch {
		case r.num(0) == 3 && r.num(2) == 0:
			if err := tk.publishClose(ctx, id, r.num(3), r.num(4), r.text(5)); err != nil {
				return nil, err
			}
		case r.num(0) == 0 || r.num(0) == 3 || at == 0:
			fixes = append(fixes, redis.NewIntCmd(ctx, fixDueScript.args(1, tk.keys.due(), id, hold, "")...))
		case at <= now:
			due = append(due, id)
		default:
			// Read the task again after moving its entry: a Touch to an earlier time in
			// between would have left the entry too late.
			fixes = append(fixes, redis.NewIntCmd(ctx, fixDueScript.args(1, tk.keys.due(), id, hold, at)...))
			if err := tk.cmds.run(ctx, fixes...); err != nil {
				return due, err
			}
			fixes = nil
			again := redis.NewStringCmd(ctx, "hget", tk.keys.task(id), "d")
			if err := tk.cmds.run(ctx, again); err != nil {
				return due, err
			}
			if moved := number(again.Val()); moved != 0 && moved < at {
				if _, err := tk.indexDue(ctx, "lt", id, moved); err != nil {
					return due, err
				}
			}
		}
	}
	if len(fixes) > 0 {
		return due, tk.cmds.run(ctx, fixes...)
	}
	return due, nil
}
