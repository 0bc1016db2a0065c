package redisstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
)

// leaseKeys stores live leases.
type leaseKeys struct {
	cluster *redis.ClusterClient
	keys    keys

	cmds *commands
	feed *feedStream
	gate *gateway
	loss *lossGuard
}

// PutLease implements broker.LeaseTable. It checks the task's state first, then whether
// the lease was revoked, then whether it exists, then the limits.
func (lk *leaseKeys) PutLease(ctx context.Context, l broker.LiveLease, limits broker.LeaseLimits, refill bool) error {
	o, err := lk.gate.ownerOf(ctx, l.TaskID)
	if err != nil {
		return err
	}
	now, exp := lk.cmds.now(), l.ExpiresAt.UnixMilli()
	life, filling := ttl(exp, now, margin+retention), 0
	if refill {
		filling = 1
	}
	both := o != nil && lk.cluster == nil
	args := append(make([]any, 3, 17), lk.keys.task(l.TaskID), lk.keys.leases(l.TaskID), lk.keys.ended(l.TaskID))
	if both {
		args = append(args, o.held, o.counts)
	}
	putLeaseScript.call(args, len(args)-3)
	args = append(args, l.ID, exp, max(limits.Task, 0), filling, now, life, now-retention.Milliseconds())
	if both {
		args = append(args, l.TaskID, max(limits.Owner, 0))
	}
	put := redis.NewIntCmd(ctx, args...)
	if o != nil && !both {
		return lk.refusedPut(ctx, lk.putApart(ctx, put, o, l, limits, now, life), l, refill)
	}
	if err := lk.cmds.runHot(ctx, put); err != nil {
		return err
	}
	return lk.refusedPut(ctx, refusal(put.Val(), l, limits), l, refill)
}

// refusedPut returns err, unless the task is unknown because the LiveStore lost it.
func (lk *leaseKeys) refusedPut(ctx context.Context, err error, l broker.LiveLease, refill bool) error {
	if refill || !errors.Is(err, broker.ErrNotFound) {
		return err
	}
	return lk.loss.absent(ctx, lk.keys.task(l.TaskID), err)
}

// putApart sends put to the node of the task, and takes a place on the node of the owner,
// at the same time. If one is refused, the other is undone.
func (lk *leaseKeys) putApart(ctx context.Context, put *redis.IntCmd, o *owner, l broker.LiveLease, limits broker.LeaseLimits, now, life int64) error {
	take := redis.NewIntCmd(ctx, takeHeldScript.args(2, o.held, o.counts, l.TaskID, l.ID, l.ExpiresAt.UnixMilli(), max(limits.Owner, 0), now, life)...)
	if err := lk.cmds.runHot(ctx, put, take); err != nil {
		return err
	}
	err := refusal(put.Val(), l, limits)
	switch {
	case err != nil && take.Val() == 1:
		return errors.Join(err, lk.cmds.run(ctx, lk.gate.drop(ctx, o, l.TaskID, l.ID)))
	case err == nil && take.Val() < 0:
		return errors.Join(refusal(-6, l, limits), lk.cmds.run(ctx, redis.NewIntCmd(ctx, "zrem", lk.keys.leases(l.TaskID), l.ID)))
	}
	return err
}

// refusal returns the error for an answer of putLeaseScript.
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

// EndLease implements broker.LeaseTable, also for an unknown lease or task.
func (lk *leaseKeys) EndLease(ctx context.Context, l broker.LiveLease, at time.Time) (bool, error) {
	now, exp := lk.cmds.now(), l.ExpiresAt.UnixMilli()
	key := lk.keys.ended(l.TaskID)
	cmd := redis.NewSliceCmd(ctx, endLeaseScript.args(4, key, lk.keys.leases(l.TaskID), lk.keys.unpublished(l.TaskID), lk.keys.task(l.TaskID),
		l.ID, exp, ttl(exp, now, margin+retention), now-retention.Milliseconds(), lk.cmds.nonce())...)
	if err := lk.cmds.runDurably(ctx, key, cmd); err != nil {
		return false, err
	}
	r := reply(cmd.Val())
	if r.num(1) == 1 {
		if err := lk.feed.publish(ctx, l.TaskID, l.ID, at.UnixMilli(), exp, r.text(2)); err != nil {
			return false, err
		}
		if err := lk.cmds.run(ctx, redis.NewIntCmd(ctx, "hdel", lk.keys.unpublished(l.TaskID), l.ID)); err != nil {
			return false, err
		}
	}
	return r.num(0) == 1, nil
}

// Status implements broker.LeaseTable. A closed task has no leases, and a revoked lease
// is not among them, so one command suffices. Reading the loss marker after it shows
// whether the answer can be trusted.
func (lk *leaseKeys) Status(ctx context.Context, taskID, leaseID string, now time.Time) (bool, error) {
	key := lk.keys.leases(taskID)
	cmd, look := redis.NewFloatCmd(ctx, "zscore", key, leaseID), lk.loss.sight(ctx, key)
	if err := lk.cmds.runHot(ctx, cmd, look.cmd); err != nil {
		return false, err
	}
	if err := lk.loss.doubt(true, look); err != nil {
		return false, err
	}
	if errors.Is(cmd.Err(), redis.Nil) {
		return false, nil
	}
	return int64(cmd.Val()) > now.UnixMilli(), nil
}

// ownerTag returns a hash that stands for the owner of a task and its runner in keys.
// Their names may contain braces, which decide where a Cluster stores a key.
func ownerTag(t broker.Task) string {
	if t.Runner == "" && t.Owner == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(t.Runner + "\x00" + t.Owner))
	return hex.EncodeToString(sum[:16])
}

// owner holds the keys under which the leases of an owner are counted.
type owner struct{ held, counts string }

func (ga *gateway) ownerBy(tag string) *owner {
	return &owner{held: ga.keys.held(tag), counts: ga.keys.counts(tag)}
}

// ownerOf returns the owner of a task, or nil for an unknown task. A minting caller has
// read the task before, so Redis is rarely asked.
func (ga *gateway) ownerOf(ctx context.Context, task string) (*owner, error) {
	if o, ok := ga.owners.Get(task); ok {
		return o, nil
	}
	cmd := redis.NewStringCmd(ctx, "hget", ga.keys.task(task), "o")
	if err := ga.cmds.run(ctx, cmd); err != nil || cmd.Val() == "" {
		return nil, err
	}
	o := ga.ownerBy(cmd.Val())
	ga.owners.Add(task, o)
	return o, nil
}

// drop frees the place of a lease, or with the lease "" all places of a task.
func (ga *gateway) drop(ctx context.Context, o *owner, task, lease string) redis.Cmder {
	return redis.NewIntCmd(ctx, dropHeldScript.args(2, o.held, o.counts, task, lease)...)
}
