package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"ebb/broker"
)

// Put implements broker.Gate. A value under the same key is replaced.
func (s *Store) Put(ctx context.Context, key, value string, until time.Time) error {
	ms := until.UnixMilli()
	return s.run(ctx, redis.NewStatusCmd(ctx, "set", s.keys.value(key), strconv.FormatInt(ms, 10)+"|"+value, "px", ttl(ms, s.now(), claimMargin)))
}

// Take implements broker.Gate.
func (s *Store) Take(ctx context.Context, key string) (string, error) {
	cmd := redis.NewStringCmd(ctx, takeScript.args(1, s.keys.value(key), s.now(), s.nonce())...)
	if err := s.run(ctx, cmd); err != nil {
		return "", err
	}
	if errors.Is(cmd.Err(), redis.Nil) {
		return "", s.absent(ctx, s.keys.value(key), fmt.Errorf("one-time value: %w", broker.ErrNotFound))
	}
	return cmd.Val(), nil
}

// Pace implements broker.Gate. Every call is a previous one to the next, also
// one that came too early.
func (s *Store) Pace(ctx context.Context, key string, now time.Time, interval, step time.Duration, until time.Time) (time.Duration, bool, error) {
	ms, end := now.UnixMilli(), until.UnixMilli()
	cmd := redis.NewSliceCmd(ctx, paceScript.args(1, s.keys.pace(key), ms, interval.Milliseconds(), step.Milliseconds(), end, ttl(end, ms, claimMargin), s.nonce())...)
	if err := s.run(ctx, cmd); err != nil {
		return 0, false, err
	}
	r := reply(cmd.Val())
	return time.Duration(r.num(0)) * time.Millisecond, r.num(1) == 1, nil
}
