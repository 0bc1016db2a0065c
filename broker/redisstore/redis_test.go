package redisstore_test

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/redisstore"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// server returns the addresses in the environment variable name.
func server(tb testing.TB, name string) []string {
	tb.Helper()
	return strings.Split(counterpart.Need(tb, name), ",")
}

// kinds are the kinds of deployment, as Config values.
func kinds(tb testing.TB) map[string]func(testing.TB) redisstore.Config {
	return map[string]func(testing.TB) redisstore.Config{
		"standalone": func(tb testing.TB) redisstore.Config {
			return redisstore.Config{Addrs: server(tb, "EBB_TEST_REDIS")}
		},
		"cluster": func(tb testing.TB) redisstore.Config {
			return redisstore.Config{Addrs: server(tb, "EBB_TEST_REDIS_CLUSTER"), Cluster: true}
		},
		"sentinel": func(tb testing.TB) redisstore.Config {
			name := os.Getenv("EBB_TEST_REDIS_MASTER")
			if name == "" {
				name = "mymaster"
			}
			return redisstore.Config{Addrs: server(tb, "EBB_TEST_REDIS_SENTINEL"), MasterName: name}
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

// sweep removes every key under the prefix of c.
func sweep(tb testing.TB, c redisstore.Config) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := redistest.Forget(ctx, redis.UniversalOptions{Addrs: c.Addrs, MasterName: c.MasterName, IsClusterMode: c.Cluster}, c.Prefix); err != nil {
		tb.Logf("keys of %s stay: %v", c.Prefix, err) // some tests break their server
	}
}

//ebb:invariant I10
func TestLiveStore(t *testing.T) {
	for name, config := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			config(t) // skips here, not in every part
			run := rand.Text()
			storetest.RunLiveStore(t, func(t *testing.T, now func() time.Time) broker.LiveStore {
				c := config(t)
				c.Now, c.Prefix = now, "test-"+run+"-"+strings.NewReplacer("{", "(", "}", ")").Replace(t.Name())
				return open(t, c)
			})
		})
	}
}

func BenchmarkLiveStore(b *testing.B) {
	for name, config := range kinds(b) {
		b.Run(name, func(b *testing.B) {
			storetest.BenchLiveStore(b, func(b *testing.B) broker.LiveStore { return open(b, config(b)) })
		})
	}
}
