package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	dueBatch  = 256
	dueRounds = 64 // bounds one call
)

// indexDue keeps the rule of the index: an entry is never later than the moment
// its task is due. flag is nx (only if there is none) or lt (only if it is
// earlier, or there is none). 0 is never.
func (s *Store) indexDue(ctx context.Context, flag, id string, due int64) (added bool, err error) {
	if due == 0 {
		return false, ctx.Err()
	}
	cmd := redis.NewIntCmd(ctx, "zadd", s.keys.due(), flag, due, id)
	err = s.run(ctx, cmd)
	return cmd.Val() == 1, err
}

// Due implements broker.TaskTable. A Touch that sets Due shows a hidden task
// again from that moment on. The index only proposes: what a heartbeat moved, it
// corrects here, which is why a heartbeat need not.
func (s *Store) Due(ctx context.Context, now, hold time.Time, n int) ([]string, error) {
	ms, until := now.UnixMilli(), hold.UnixMilli()
	if until <= ms {
		until = ms + 1 // a hold in the past must not end in a loop
	}
	var out []string
	for range dueRounds {
		want := min(n-len(out), dueBatch)
		if want <= 0 {
			break
		}
		cmd := redis.NewStringSliceCmd(ctx, takeDueScript.args(1, s.keys.due(), ms, until, want)...)
		if err := s.run(ctx, cmd); err != nil {
			return out, err
		}
		due, err := s.confirm(ctx, cmd.Val(), ms, until)
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

// confirm returns which of ids, taken until hold, are really due, and corrects
// the entries of the others.
func (s *Store) confirm(ctx context.Context, ids []string, now, hold int64) (due []string, err error) {
	if len(ids) == 0 {
		return nil, s.run(ctx)
	}
	looks := make([]redis.Cmder, len(ids))
	for i, id := range ids {
		looks[i] = redis.NewSliceCmd(ctx, "hmget", s.keys.task(id), "s", "d", "p", "a", "k", "o")
	}
	if err := s.run(ctx, looks...); err != nil {
		return nil, err
	}
	var fixes []redis.Cmder
	for i, id := range ids {
		r := reply(looks[i].(*redis.SliceCmd).Val())
		at := r.num(1)
		switch {
		case r.num(0) == 3 && r.num(2) == 0:
			if err := s.publishClose(ctx, id, r.num(3), r.num(4), r.text(5)); err != nil {
				return nil, err
			}
		case r.num(0) == 0 || r.num(0) == 3 || at == 0:
			fixes = append(fixes, redis.NewIntCmd(ctx, fixDueScript.args(1, s.keys.due(), id, hold, "")...))
		case at <= now:
			due = append(due, id)
		default:
			// Look again after moving it: a Touch to an earlier moment in between
			// would have left the entry too late.
			fixes = append(fixes, redis.NewIntCmd(ctx, fixDueScript.args(1, s.keys.due(), id, hold, at)...))
			if err := s.run(ctx, fixes...); err != nil {
				return due, err
			}
			fixes = nil
			again := redis.NewStringCmd(ctx, "hget", s.keys.task(id), "d")
			if err := s.run(ctx, again); err != nil {
				return due, err
			}
			if moved := number(again.Val()); moved != 0 && moved < at {
				if _, err := s.indexDue(ctx, "lt", id, moved); err != nil {
					return due, err
				}
			}
		}
	}
	if len(fixes) > 0 {
		return due, s.run(ctx, fixes...)
	}
	return due, nil
}
