package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"ebb/broker"
)

// PutLease implements broker.LeaseTable. The task's state is judged first, then
// the lease's own end, then whether it is known, then the limit.
func (s *Store) PutLease(ctx context.Context, l broker.LiveLease, limit int, refill bool) error {
	now, exp := s.now(), l.ExpiresAt.UnixMilli()
	filling := 0
	if refill {
		filling = 1
	}
	cmd := redis.NewIntCmd(ctx, putLeaseScript.args(3, s.keys.task(l.TaskID), s.keys.leases(l.TaskID), s.keys.ended(l.TaskID),
		l.ID, exp, max(limit, 0), filling, now, ttl(exp, now, margin+retention), now-retention.Milliseconds())...)
	if err := s.runHot(ctx, cmd); err != nil {
		return err
	}
	switch cmd.Val() {
	case 0:
		return nil
	case -1:
		return fmt.Errorf("task %s: %w", l.TaskID, broker.ErrNotFound)
	case -2:
		return fmt.Errorf("task %s: %w", l.TaskID, broker.ErrTaskClosed)
	case -3:
		return fmt.Errorf("task %s: %w", l.TaskID, broker.ErrTaskPaused)
	case -4:
		return fmt.Errorf("lease %s: %w", l.ID, broker.ErrDone)
	case -5:
		return fmt.Errorf("task %s has %d live leases: %w", l.TaskID, limit, broker.ErrCap)
	}
	return fmt.Errorf("redis: unknown answer %d", cmd.Val())
}

// EndLease implements broker.LeaseTable, for a lease or task it does not know too.
func (s *Store) EndLease(ctx context.Context, l broker.LiveLease, at time.Time) (bool, error) {
	now, exp := s.now(), l.ExpiresAt.UnixMilli()
	key := s.keys.ended(l.TaskID)
	cmd := redis.NewSliceCmd(ctx, endLeaseScript.args(3, key, s.keys.leases(l.TaskID), s.keys.unpublished(l.TaskID),
		l.ID, exp, ttl(exp, now, margin+retention), now-retention.Milliseconds(), s.nonce())...)
	if err := s.runDurably(ctx, key, cmd); err != nil {
		return false, err
	}
	r := reply(cmd.Val())
	if r.num(1) == 1 {
		if err := s.publish(ctx, l.TaskID, l.ID, at.UnixMilli(), exp); err != nil {
			return false, err
		}
		if err := s.run(ctx, redis.NewIntCmd(ctx, "hdel", s.keys.unpublished(l.TaskID), l.ID)); err != nil {
			return false, err
		}
	}
	return r.num(0) == 1, nil
}

// Status implements broker.LeaseTable. A closed task has no leases and an ended
// lease is not among them, so one command says it all.
func (s *Store) Status(ctx context.Context, taskID, leaseID string, now time.Time) (bool, error) {
	cmd := redis.NewFloatCmd(ctx, "zscore", s.keys.leases(taskID), leaseID)
	if err := s.runHot(ctx, cmd); err != nil {
		return false, err
	}
	if errors.Is(cmd.Err(), redis.Nil) {
		return false, nil
	}
	return int64(cmd.Val()) > now.UnixMilli(), nil
}
