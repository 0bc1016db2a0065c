package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ebb/broker/redisstore"
)

// child is a redis-server of the test's own, to be killed, stopped and flushed.
type child struct {
	tb   testing.TB
	args []string
	addr string
	dir  string
	cmd  *exec.Cmd
}

// start runs redis-server on a free port, with nothing written to disk unless
// args say so. It skips when there is no such program.
func start(tb testing.TB, args ...string) *child {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("EBB_TEST_REQUIRE"), ","), "redis") {
			tb.Fatal(err)
		}
		tb.Skip("redis-server is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	c := &child{tb: tb, args: args, addr: l.Addr().String(), dir: tb.TempDir()}
	_ = l.Close()
	c.run()
	tb.Cleanup(c.kill)
	return c
}

func (c *child) port() string {
	_, port, _ := net.SplitHostPort(c.addr)
	return port
}

func (c *child) run() {
	c.tb.Helper()
	args := append([]string{"--bind", "127.0.0.1", "--port", c.port(), "--dir", c.dir, "--save", ""}, c.args...)
	if len(c.args) > 0 && strings.HasSuffix(c.args[0], ".conf") {
		args = c.args
	}
	c.cmd = exec.Command("redis-server", args...)
	if err := c.cmd.Start(); err != nil {
		c.tb.Fatal(err)
	}
	c.until("the server answers", func() bool { return strings.Contains(c.try("ping"), "PONG") })
}

// kill is kill -9.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func (c *child) signal(s syscall.Signal) {
	if err := c.cmd.Process.Signal(s); err != nil {
		c.tb.Fatal(err)
	}
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
	r := redis.NewClient(&redis.Options{Addr: c.addr, MaxRetries: -1, Protocol: 2, DialerRetries: 1})
	defer func() { _ = r.Close() }()
	out, err := r.Do(context.Background(), args...).Result()
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprint(out)
}

func (c *child) until(what string, ok func() bool) {
	c.tb.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	c.tb.Fatalf("in vain: %s", what)
}

func (c *child) config() redisstore.Config {
	return redisstore.Config{Addrs: []string{c.addr}, Prefix: "t"}
}

// sentinel watches master under the name "m".
func sentinel(tb testing.TB, master *child) *child {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	c := &child{tb: tb, addr: l.Addr().String(), dir: tb.TempDir()}
	_ = l.Close()
	file := filepath.Join(c.dir, "s.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel monitor m 127.0.0.1 %s 1\nsentinel down-after-milliseconds m 500\nsentinel failover-timeout m 3000\n", c.port(), c.dir, master.port())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	c.args = []string{file, "--sentinel"}
	c.run()
	tb.Cleanup(c.kill)
	return c
}
