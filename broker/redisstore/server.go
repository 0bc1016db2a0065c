package redisstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"ebb/broker"
)

// checkServers asks every master whether it can be trusted with a ledger.
func (s *Store) checkServers(ctx context.Context) error {
	if s.cluster == nil {
		return s.checkServer(ctx, s.client)
	}
	var mu sync.Mutex
	var all []error
	err := s.cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		if err := s.checkServer(ctx, c); err != nil {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, fmt.Errorf("%s: %w", c.Options().Addr, err))
		}
		return nil
	})
	return errors.Join(append(all, wrap(err))...)
}

// checkServer refuses a server that is too old or could evict: an evicted close
// would let a task live again. What an ACL keeps from us is only warned about.
func (s *Store) checkServer(ctx context.Context, c redis.Cmdable) error {
	info, err := c.Info(ctx).Result()
	if forbidden(err) {
		s.cfg.Logger.WarnContext(ctx, "redis: INFO is not allowed for this user; the server's version could not be checked", "error", err)
	} else if err != nil {
		return wrap(err)
	}
	facts := parseInfo(info)
	if v := facts["redis_version"]; v != "" && facts["server_name"] != "valkey" {
		if major, _, _ := strings.Cut(v, "."); atoi(major) < 7 {
			return fmt.Errorf("redis: version %s is too old; use Redis 7 or Valkey 8, or newer", v)
		}
	}
	policy, limit := facts["maxmemory_policy"], facts["maxmemory"]
	if policy == "" {
		conf, err := c.ConfigGet(ctx, "maxmemory*").Result()
		switch {
		case forbidden(err):
			s.cfg.Logger.WarnContext(ctx, "redis: neither INFO nor CONFIG GET is allowed for this user; make sure that maxmemory-policy is noeviction", "error", err)
			return nil
		case err != nil:
			return wrap(err)
		}
		policy, limit = conf["maxmemory-policy"], conf["maxmemory"]
	}
	if policy != "noeviction" && limit != "0" {
		return fmt.Errorf("redis: maxmemory-policy is %q with maxmemory %s: %w: %w", policy, limit, mayEvict, broker.ErrEvicting)
	}
	s.noteEvicted(facts)
	return nil
}

const mayEvict broker.Reason = "the server may evict what must not be forgotten: set maxmemory-policy noeviction"

// noteEvicted compares how many keys a server has evicted with what was known: one that might
// evict for a moment, between two looks, has lost data.
func (s *Store) noteEvicted(facts map[string]string) {
	run, n := facts["run_id"], int64(atoi(facts["evicted_keys"]))
	s.guard.mu.Lock()
	before, known := s.guard.evicted[run]
	s.guard.evicted[run] = n
	s.guard.mu.Unlock()
	if known && n > before {
		s.guard.distrust()
	}
}

// forbidden reports whether err is the server's refusal of a command.
func forbidden(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.HasPrefix(text, "NOPERM") || strings.HasPrefix(text, "ERR unknown command") || strings.HasPrefix(text, "ERR command is not allowed")
}

func parseInfo(text string) map[string]string {
	out := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok {
			out[name] = value
		}
	}
	return out
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// Clock asks Redis what time it is; in a Cluster, one of its masters.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	at, err := s.client.Time(ctx).Result()
	return at, wrap(err)
}
