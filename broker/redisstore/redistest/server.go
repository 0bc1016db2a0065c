package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// Server is a redis-server of the test's own, to be killed.
type Server struct {
	Addr string

	t    testing.TB
	path string
	args []string
	dir  string
	mu   sync.Mutex
	cmd  *exec.Cmd
}

// New starts a server that writes every change to its append-only file, as text.
func New(t testing.TB) *Server {
	t.Helper()
	return Run(t, "--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no")
}

// Run starts a server with args of redis-server. It writes to disk only if they say so.
func Run(t testing.TB, args ...string) *Server {
	t.Helper()
	path := counterpart.Program(t, "redis-server")
	s := &Server{Addr: fmt.Sprintf("127.0.0.1:%d", counterpart.FreePort(t)), t: t, path: path, args: args, dir: t.TempDir()}
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

// Start runs the server, after Kill with its persisted data.
func (s *Server) Start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, port, _ := net.SplitHostPort(s.Addr)
	// A configuration file must be the first argument.
	s.cmd = exec.Command(s.path, append(slices.Clone(s.args), "--bind", "127.0.0.1", "--port", port, "--dir", s.dir, "--save", "")...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if s.answers() {
			return
		}
	}
	s.t.Fatal("redis-server does not answer")
}

func (s *Server) answers() bool { return s.Do("PING") == "+PONG\r\n" }

// Do sends one command, written as on a terminal, and returns the first line of the
// answer, or "" if there is none.
func (s *Server) Do(command string) string {
	c, err := net.DialTimeout("tcp", s.Addr, 10*time.Second)
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte(command + "\r\n")); err != nil {
		return ""
	}
	line, _ := bufio.NewReader(c).ReadString('\n')
	return line
}

// Kill sends SIGKILL.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Signal sends a signal: SIGSTOP makes the server hang.
func (s *Server) Signal(sig os.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Written returns every write that the server has logged, including data that was removed
// since.
func (s *Server) Written() []byte {
	s.t.Helper()
	var out []byte
	list, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*"))
	if err != nil || len(list) == 0 {
		s.t.Fatalf("redis-server wrote nothing (%v)", err)
	}
	for _, path := range list {
		raw, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, raw...)
	}
	return out
}

// Forget removes every key under a prefix, in a Cluster on all masters, and returns the
// number of removed keys.
func Forget(ctx context.Context, at redis.UniversalOptions, prefix string) (removed int64, err error) {
	u := redis.NewUniversalClient(&at)
	defer func() { _ = u.Close() }()
	var n atomic.Int64
	node := func(ctx context.Context, c *redis.Client) error {
		keys := c.Scan(ctx, 0, prefix+":*", 1000).Iterator()
		for keys.Next(ctx) {
			gone, err := c.Unlink(ctx, keys.Val()).Result()
			if err != nil {
				return err
			}
			n.Add(gone)
		}
		return keys.Err()
	}
	switch u := u.(type) {
	case *redis.ClusterClient:
		err = u.ForEachMaster(ctx, node)
	case *redis.Client:
		err = node(ctx, u)
	}
	return n.Load(), err
}
