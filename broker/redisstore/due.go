package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

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
