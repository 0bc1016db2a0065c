package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"ebb/broker"
)

// Bounds of a claim, as broker.Claim states them.
const (
	maxKey   = 128
	maxValue = 512
)

// Admit implements broker.Gate in one round trip. Every claim is made and every
// rate counted even when one of them fails; the first failure in the order
// claims, rates, task is returned. A claim that has already ended cannot be kept,
// so it is ErrClaimed. A Rate lets Limit happen at once and then one each
// Per/Limit.
func (s *Store) Admit(ctx context.Context, a broker.Admission) (broker.Live, error) {
	if err := valid(a); err != nil {
		return broker.Live{}, err
	}
	now := s.now()
	cmds := make([]redis.Cmder, 0, len(a.Claims)+len(a.Rates)+1)
	nonce := ""
	if len(a.Claims) > 0 {
		nonce = s.nonce()
	}
	for _, c := range a.Claims {
		cmds = append(cmds, s.claimCmd(ctx, c, nonce, now))
	}
	for _, r := range a.Rates {
		cmds = append(cmds, s.rateCmd(ctx, r, now))
	}
	var head *redis.StringCmd
	if a.TaskID != "" {
		head = redis.NewStringCmd(ctx, "hget", s.keys.task(a.TaskID), "h")
		cmds = append(cmds, head)
	}
	if err := s.run(ctx, cmds...); err != nil || len(cmds) == 0 {
		return broker.Live{}, err
	}
	for i, c := range a.Claims {
		if err := s.claimed(ctx, c, nonce, now, cmds[i].(*redis.StringCmd)); err != nil {
			return broker.Live{}, err
		}
	}
	for i, r := range a.Rates {
		if over := cmds[len(a.Claims)+i].(*redis.IntCmd).Val(); over > 0 {
			return broker.Live{}, &broker.RateError{Key: r.Key, RetryAfter: time.Duration((over+999)/1000) * time.Millisecond}
		} else if r.Limit <= 0 {
			return broker.Live{}, &broker.RateError{Key: r.Key, RetryAfter: r.Per}
		}
	}
	if head == nil {
		return broker.Live{}, nil
	}
	if errors.Is(head.Err(), redis.Nil) {
		return broker.Live{}, fmt.Errorf("task %s: %w", a.TaskID, broker.ErrNotFound)
	}
	return s.live(ctx, a.TaskID, head.Val())
}

func valid(a broker.Admission) error {
	for _, c := range a.Claims {
		if c.Key == "" || len(c.Key) > maxKey || len(c.Value) > maxValue {
			return fmt.Errorf("claim: key must have 1 to %d bytes and value at most %d", maxKey, maxValue)
		}
	}
	for _, r := range a.Rates {
		if r.Key == "" || r.Per <= 0 {
			return errors.New("rate: key and period are required")
		}
	}
	return nil
}

// A claim is stored as "until|nonce|value". SET NX GET makes it and says what was
// there before; only a claim that has ended by our clock but not yet by the
// server's needs a script, and another round trip.

func claimText(c broker.Claim, nonce string) string {
	b := make([]byte, 0, 16+len(nonce)+len(c.Value))
	b = strconv.AppendInt(b, c.Until.UnixMilli(), 10)
	b = append(append(b, '|'), nonce...)
	return string(append(append(b, '|'), c.Value...))
}

func (s *Store) claimCmd(ctx context.Context, c broker.Claim, nonce string, now int64) redis.Cmder {
	until := c.Until.UnixMilli()
	if until <= now { // refused in any case: look, do not write
		return redis.NewStringCmd(ctx, "get", s.keys.claim(c.Key))
	}
	return redis.NewStringCmd(ctx, "set", s.keys.claim(c.Key), claimText(c, nonce), "nx", "get", "px", ttl(until, now, claimMargin))
}

// claimed judges the answer to claimCmd.
func (s *Store) claimed(ctx context.Context, c broker.Claim, nonce string, now int64, cmd *redis.StringCmd) error {
	if c.Until.UnixMilli() <= now {
		return fmt.Errorf("claim has ended: %w", broker.ErrClaimed)
	}
	for {
		if errors.Is(cmd.Err(), redis.Nil) {
			return nil // nobody had it
		}
		until, rest, _ := strings.Cut(cmd.Val(), "|")
		by, value, _ := strings.Cut(rest, "|")
		if number(until) > now {
			if by == nonce || c.Again && value == c.Value {
				return nil
			}
			return broker.ErrClaimed
		}
		cmd = redis.NewStringCmd(ctx, claimScript.args(1, s.keys.claim(c.Key), now, claimText(c, nonce), ttl(c.Until.UnixMilli(), now, claimMargin))...)
		if err := s.run(ctx, cmd); err != nil {
			return err
		}
	}
}

func (s *Store) rateCmd(ctx context.Context, r broker.Rate, now int64) redis.Cmder {
	if r.Limit <= 0 { // refused in any case
		return redis.NewIntCmd(ctx, "exists", s.keys.rate(r.Key))
	}
	step := (r.Per.Microseconds() + int64(r.Limit) - 1) / int64(r.Limit)
	burst := step * int64(r.Limit)
	return redis.NewIntCmd(ctx, rateScript.args(1, s.keys.rate(r.Key), now*1000, step, burst, burst/1000+claimMargin.Milliseconds())...)
}
