package redisstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
)

// servers checks the version and settings of each server, and loads the scripts.
type servers struct {
	logger  *slog.Logger
	client  redis.UniversalClient
	cluster *redis.ClusterClient
	guard   *guard
}

// checkServers checks every master with checkServer.
func (sv *servers) checkServers(ctx context.Context) error { return sv.onMasters(ctx, sv.checkServer) }

// onMasters runs f on every master and joins the errors.
func (sv *servers) onMasters(ctx context.Context, f func(context.Context, redis.Cmdable) error) error {
	if sv.cluster == nil {
		return f(ctx, sv.client)
	}
	var mu sync.Mutex
	var all []error
	err := sv.cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		if err := f(ctx, c); err != nil {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, fmt.Errorf("%s: %w", c.Options().Addr, err))
		}
		return nil
	})
	return errors.Join(append(all, wrap(err))...)
}

// checkServer refuses a server that is too old or could evict keys: if a close were
// evicted, a task would be open again. If an ACL forbids a check, it only logs a warning.
func (sv *servers) checkServer(ctx context.Context, c redis.Cmdable) error {
	info, err := c.Info(ctx).Result()
	if forbidden(err) {
		sv.logger.WarnContext(ctx, "redis: INFO is not allowed for this user; the server's version could not be checked", "error", err)
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
			sv.logger.WarnContext(ctx, "redis: neither INFO nor CONFIG GET is allowed for this user; make sure that maxmemory-policy is noeviction", "error", err)
			return nil
		case err != nil:
			return wrap(err)
		}
		policy, limit = conf["maxmemory-policy"], conf["maxmemory"]
	}
	if policy != "noeviction" && limit != "0" {
		return fmt.Errorf("redis: maxmemory-policy is %q with maxmemory %s: %w: %w", policy, limit, mayEvict, broker.ErrEvicting)
	}
	sv.noteEvicted(facts)
	return nil
}

const mayEvict broker.Reason = "the server may evict live state: set maxmemory-policy noeviction"

// noteEvicted compares the number of keys that a server has evicted with the last known
// number. A server that could evict for a moment, between two checks, has lost data.
func (sv *servers) noteEvicted(facts map[string]string) {
	run, n := facts["run_id"], int64(atoi(facts["evicted_keys"]))
	sv.guard.mu.Lock()
	before, known := sv.guard.evicted[run]
	sv.guard.evicted[run] = n
	sv.guard.mu.Unlock()
	if known && n > before {
		sv.guard.distrust()
	}
}

// forbidden reports whether err is the server's refusal of a command by ACL or
// configuration.
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

// Clock returns the time of Redis; in a Cluster, of one of its masters.
func (sv *servers) Clock(ctx context.Context) (time.Time, error) {
	at, err := sv.client.Time(ctx).Result()
	return at, wrap(err)
}
