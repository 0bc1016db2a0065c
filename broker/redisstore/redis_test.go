package redisstore_test

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ebb/broker"
	"ebb/broker/redisstore"
	"ebb/broker/storetest"
)

// server returns the addresses in the environment variable name, or skips; it
// fails instead when EBB_TEST_REQUIRE lists what.
func server(tb testing.TB, name, what string) []string {
	tb.Helper()
	if v := os.Getenv(name); v != "" {
		return strings.Split(v, ",")
	}
	if slices.Contains(strings.Split(os.Getenv("EBB_TEST_REQUIRE"), ","), what) {
		tb.Fatalf("%s is required but %s is not set", what, name)
	}
	tb.Skipf("set %s=host:port to run this", name)
	return nil
}

// kinds of deployments, as Config reaches them.
func kinds(tb testing.TB) map[string]func(testing.TB) redisstore.Config {
	return map[string]func(testing.TB) redisstore.Config{
		"standalone": func(tb testing.TB) redisstore.Config {
			return redisstore.Config{Addrs: server(tb, "EBB_TEST_REDIS", "redis")}
		},
		"cluster": func(tb testing.TB) redisstore.Config {
			return redisstore.Config{Addrs: server(tb, "EBB_TEST_REDIS_CLUSTER", "redis-cluster"), Cluster: true}
		},
		"sentinel": func(tb testing.TB) redisstore.Config {
			name := os.Getenv("EBB_TEST_REDIS_MASTER")
			if name == "" {
				name = "mymaster"
			}
			return redisstore.Config{Addrs: server(tb, "EBB_TEST_REDIS_SENTINEL", "redis-sentinel"), MasterName: name}
		},
	}
}

// open connects under a prefix of its own and removes its keys afterwards.
func open(tb testing.TB, c redisstore.Config) *redisstore.Store {
	tb.Helper()
	if c.Prefix == "" {
		c.Prefix = "test-" + rand.Text()
	}
	s, err := redisstore.New(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		sweep(tb, c)
		_ = s.Close()
	})
	return s
}

// sweep unlinks every key under the prefix of c.
func sweep(tb testing.TB, c redisstore.Config) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	u := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: c.Addrs, MasterName: c.MasterName, IsClusterMode: c.Cluster})
	defer func() { _ = u.Close() }()
	clean := func(ctx context.Context, u *redis.Client) error {
		keys := u.Scan(ctx, 0, c.Prefix+":*", 1000).Iterator()
		pipe := u.Pipeline()
		for keys.Next(ctx) {
			pipe.Unlink(ctx, keys.Val())
		}
		_, _ = pipe.Exec(ctx)
		return keys.Err()
	}
	switch u := u.(type) {
	case *redis.ClusterClient:
		_ = u.ForEachMaster(ctx, clean)
	case *redis.Client:
		_ = clean(ctx, u)
	}
}

func TestLedger(t *testing.T) {
	for name, config := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			config(t) // skips here, not in every part
			run := rand.Text()
			storetest.RunLedger(t, func(t *testing.T, now func() time.Time) broker.Ledger {
				c := config(t)
				c.Now, c.Prefix = now, "test-"+run+"-"+strings.NewReplacer("{", "(", "}", ")").Replace(t.Name())
				return open(t, c)
			})
		})
	}
}

func BenchmarkLedger(b *testing.B) {
	for name, config := range kinds(b) {
		b.Run(name, func(b *testing.B) {
			storetest.BenchLedger(b, func(b *testing.B) broker.Ledger { return open(b, config(b)) })
		})
	}
}
