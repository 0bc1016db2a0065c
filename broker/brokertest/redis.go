package brokertest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Redis is a redis-server of the test's own, to be killed. It writes every change
// to its append-only file, as text.
type Redis struct {
	Addr string

	t   testing.TB
	dir string
	mu  sync.Mutex
	cmd *exec.Cmd
}

// NewRedis starts one, or skips the test when redis-server is not installed; it
// fails when EBB_TEST_REQUIRE lists redis.
func NewRedis(t testing.TB) *Redis {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("EBB_TEST_REQUIRE"), ","), "redis") {
			t.Fatal(err)
		}
		t.Skip("redis-server is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Redis{Addr: l.Addr().String(), t: t, dir: t.TempDir()}
	_ = l.Close()
	r.Start()
	t.Cleanup(r.Kill)
	return r
}

// Start runs it, after Kill with what it had written.
func (r *Redis) Start() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	_, port, _ := net.SplitHostPort(r.Addr)
	r.cmd = exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", r.dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no")
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if r.answers() {
			return
		}
	}
	r.t.Fatal("redis-server does not answer")
}

func (r *Redis) answers() bool {
	c, err := net.DialTimeout("tcp", r.Addr, time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && line == "+PONG\r\n"
}

// Kill is kill -9.
func (r *Redis) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// Written is everything that was ever written to it, also what is gone by now.
func (r *Redis) Written() []byte {
	r.t.Helper()
	var out []byte
	list, err := filepath.Glob(filepath.Join(r.dir, "appendonlydir", "*"))
	if err != nil || len(list) == 0 {
		r.t.Fatalf("redis-server wrote nothing (%v)", err)
	}
	for _, path := range list {
		raw, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, raw...)
	}
	return out
}
