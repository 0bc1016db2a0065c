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
// the lease's own end, then whether it is known, then the limits.
func (s *Store) PutLease(ctx context.Context, l broker.LiveLease, limits broker.LeaseLimits, refill bool) error {
	o, err := s.ownerOf(ctx, l.TaskID)
	if err != nil {
		return err
	}
	now, exp := s.now(), l.ExpiresAt.UnixMilli()
	life, filling := ttl(exp, now, margin+retention), 0
	if refill {
		filling = 1
	}
	both := o != nil && s.cluster == nil
	args := append(make([]any, 0, 17), "evalsha", putLeaseScript, 3, s.keys.task(l.TaskID), s.keys.leases(l.TaskID), s.keys.ended(l.TaskID))
	if both {
		args[2] = 5
		args = append(args, o.held, o.counts)
	}
	args = append(args, l.ID, exp, max(limits.Task, 0), filling, now, life, now-retention.Milliseconds())
	if both {
		args = append(args, l.TaskID, max(limits.Owner, 0))
	}
	put := redis.NewIntCmd(ctx, args...)
	if o != nil && !both {
		return s.refusedPut(ctx, s.putApart(ctx, put, o, l, limits, now, life), l, refill)
	}
	if err := s.runHot(ctx, put); err != nil {
		return err
	}
	return s.refusedPut(ctx, refusal(put.Val(), l, limits), l, refill)
}

// refusedPut is err, unless the task is not known because the ledger lost it.
func (s *Store) refusedPut(ctx context.Context, err error, l broker.LiveLease, refill bool) error {
	if refill || !errors.Is(err, broker.ErrNotFound) {
		return err
	}
	return s.absent(ctx, s.keys.task(l.TaskID), err)
}

// putApart sends put to the node of the task and takes the place at that of the
// owner, both at once: what one of them refuses, the other gives back.
func (s *Store) putApart(ctx context.Context, put *redis.IntCmd, o *owner, l broker.LiveLease, limits broker.LeaseLimits, now, life int64) error {
	take := redis.NewIntCmd(ctx, takeHeldScript.args(2, o.held, o.counts, l.TaskID, l.ID, l.ExpiresAt.UnixMilli(), max(limits.Owner, 0), now, life)...)
	if err := s.runHot(ctx, put, take); err != nil {
		return err
	}
	err := refusal(put.Val(), l, limits)
	switch {
	case err != nil && take.Val() == 1:
		return errors.Join(err, s.run(ctx, s.drop(ctx, o, l.TaskID, l.ID)))
	case err == nil && take.Val() < 0:
		return errors.Join(refusal(-6, l, limits), s.run(ctx, redis.NewIntCmd(ctx, "zrem", s.keys.leases(l.TaskID), l.ID)))
	}
	return err
}

// refusal is what putLeaseScript refused.
func refusal(answer int64, l broker.LiveLease, limits broker.LeaseLimits) error {
	switch answer {
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
		return fmt.Errorf("task %s has %d live leases: %w", l.TaskID, limits.Task, broker.ErrCap)
	case -6:
		return fmt.Errorf("the owner of task %s has %d live leases: %w", l.TaskID, limits.Owner, broker.ErrOwnerCap)
	}
	return fmt.Errorf("redis: unknown answer %d", answer)
}

// EndLease implements broker.LeaseTable, for a lease or task it does not know too.
func (s *Store) EndLease(ctx context.Context, l broker.LiveLease, at time.Time) (bool, error) {
	now, exp := s.now(), l.ExpiresAt.UnixMilli()
	key := s.keys.ended(l.TaskID)
	cmd := redis.NewSliceCmd(ctx, endLeaseScript.args(4, key, s.keys.leases(l.TaskID), s.keys.unpublished(l.TaskID), s.keys.task(l.TaskID),
		l.ID, exp, ttl(exp, now, margin+retention), now-retention.Milliseconds(), s.nonce())...)
	if err := s.runDurably(ctx, key, cmd); err != nil {
		return false, err
	}
	r := reply(cmd.Val())
	if r.num(1) == 1 {
		if err := s.publish(ctx, l.TaskID, l.ID, at.UnixMilli(), exp, r.text(2)); err != nil {
			return false, err
		}
		if err := s.run(ctx, redis.NewIntCmd(ctx, "hdel", s.keys.unpublished(l.TaskID), l.ID)); err != nil {
			return false, err
		}
	}
	return r.num(0) == 1, nil
}

// Status implements broker.LeaseTable. A closed task has no leases and an ended
// lease is not among them, so one command says it all; a look at the canary behind it says
// whether it can be believed.
func (s *Store) Status(ctx context.Context, taskID, leaseID string, now time.Time) (bool, error) {
	key := s.keys.leases(taskID)
	cmd, look := redis.NewFloatCmd(ctx, "zscore", key, leaseID), s.sight(ctx, key)
	if err := s.runHot(ctx, cmd, look.cmd); err != nil {
		return false, err
	}
	if err := s.doubt(true, look); err != nil {
		return false, err
	}
	if errors.Is(cmd.Err(), redis.Nil) {
		return false, nil
	}
	return int64(cmd.Val()) > now.UnixMilli(), nil
}
