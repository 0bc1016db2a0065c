package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker/redisstore"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
)

// child is a redis-server of the test's own, to be killed, stopped and flushed.
type child struct {
	*redistest.Server
	tb testing.TB
}

func start(tb testing.TB, args ...string) *child {
	tb.Helper()
	return &child{redistest.Run(tb, args...), tb}
}

// do sends one command on a connection of its own.
func (c *child) do(args ...any) string {
	c.tb.Helper()
	out := c.try(args...)
	if strings.HasPrefix(out, "error: ") {
		c.tb.Fatalf("%v: %s", args, out)
	}
	return out
}

func (c *child) try(args ...any) string {
	r := redis.NewClient(&redis.Options{Addr: c.Addr, MaxRetries: -1, Protocol: 2, DialerRetries: 1})
	defer func() { _ = r.Close() }()
	out, err := r.Do(context.Background(), args...).Result()
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprint(out)
}

func (c *child) until(what string, ok func() bool) {
	c.tb.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	c.tb.Fatalf("in vain: %s", what)
}

func (c *child) config() redisstore.Config {
	return redisstore.Config{Addrs: []string{c.Addr}, Prefix: "t"}
}

// sentinel watches master under the name "m".
func sentinel(tb testing.TB, master *child) *child {
	tb.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	file := filepath.Join(tb.TempDir(), "s.conf") // Sentinel writes to this file
	text := fmt.Sprintf("sentinel monitor m %s %s 1\nsentinel down-after-milliseconds m 500\nsentinel failover-timeout m 3000\n", host, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return start(tb, file, "--sentinel")
}
