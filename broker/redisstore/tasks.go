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
