package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
)

// Put implements broker.Gate. It replaces a value under the same key.
func (x *commands) Put(ctx context.Context, key, value string, until time.Time) error {
	ms := until.UnixMilli()
	return x.run(ctx, redis.NewStatusCmd(ctx, "set", x.keys.value(key), strconv.FormatInt(ms, 10)+"|"+value, "px", ttl(ms, x.now(), claimMargin)))
}

// Take implements broker.Gate.
func (x *commands) Take(ctx context.Context, key string) (string, error) {
	cmd := redis.NewStringCmd(ctx, takeScript.args(1, x.keys.value(key), x.now(), x.nonce())...)
	if err := x.run(ctx, cmd); err != nil {
		return "", err
	}
	if errors.Is(cmd.Err(), redis.Nil) {
		return "", x.loss.absent(ctx, x.keys.value(key), fmt.Errorf("one-time value: %w", broker.ErrNotFound))
	}
	return cmd.Val(), nil
}

// Pace implements broker.Gate. Every call, also one that came too early, is the previous
// call of the next.
func (x *commands) Pace(ctx context.Context, key string, now time.Time, p broker.Pacing, until time.Time) (time.Duration, bool, error) {
	ms, end := now.UnixMilli(), until.UnixMilli()
	cmd := redis.NewSliceCmd(ctx, paceScript.args(1, x.keys.pace(key), ms, p.Interval.Milliseconds(), p.Step.Milliseconds(), end, ttl(end, ms, claimMargin), x.nonce(), p.Most.Milliseconds())...)
	if err := x.run(ctx, cmd); err != nil {
		return 0, false, err
	}
	r := reply(cmd.Val())
	return time.Duration(r.num(0)) * time.Millisecond, r.num(1) == 1, nil
}

// now returns the time in Unix milliseconds.
func (x *commands) now() int64 { return x.clock().UnixMilli() }
