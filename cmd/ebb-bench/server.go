package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/bench"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
)

// server is an ebb in a process of its own, so that its memory is measured
// apart from that of the load generator.
type server struct {
	ebb   string // path of the program
	dir   string
	args  []string
	env   []string
	child *exec.Cmd
	ended chan struct{}
}

// startServer starts an ebb to measure, and sets its address and keys in b.
func (c *cli) startServer(ctx context.Context, b *bench.Config) (stop func(), err error) {
	set, err := scopes.ParseSet(b.Scope)
	if err != nil || set.Len() != 1 {
		return nil, command.Usage("--scope must be one scope", "write one such as bench:load/1:read")
	}
	ebb, err := c.ebbPath()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ebb-bench-")
	if err != nil {
		return nil, command.Fail(err.Error(), "set TMPDIR to a directory that this user can write to")
	}
	s := &server{ebb: ebb, dir: dir, args: []string{"serve"}}
	if c.configFile != "" {
		s.args = append(s.args, "--config", c.configFile)
	}
	b.Resource = "https://bench.invalid/api"
	b.RunnerID, b.ServerID = runnerID, "bench-server"
	people, signers, err := newPrincipals([]principal{{ID: b.RunnerID, Roles: []broker.Role{broker.RoleRunner}}, {ID: b.ServerID, Roles: []broker.Role{broker.RoleResourceServer}, Audiences: []string{b.Resource}}})
	if err == nil {
		b.Runner, b.Server = signers[0], signers[1]
		provider := fmt.Sprintf("[{name: %s, kind: jwt, resource: %q}]", set.Providers()[0], b.Resource)
		s.env, err = c.serverEnv(filepath.Join(dir, "data"), people, provider)
	}
	if err == nil {
		b.Issuer, err = s.start(ctx)
	}
	if err != nil {
		s.stop()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	b.Restart = func(ctx context.Context) (time.Duration, error) {
		s.stop()
		begin := time.Now()
		_, err := s.start(ctx)
		return time.Since(begin), err
	}
	return func() {
		s.stop()
		_ = os.RemoveAll(dir)
	}, nil
}

// start starts the process and waits until it is ready.
func (s *server) start(ctx context.Context) (url string, err error) {
	if err := os.Remove(filepath.Join(s.dir, "data", config.URLFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	child := exec.Command(s.ebb, s.args...)
	child.Env, child.Stdout, child.Stderr = s.env, log, log
	if err := child.Start(); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	s.child, s.ended = child, ended
	go func() {
		_ = child.Wait() // the reason is in its log
		close(ended)
	}()
	if url, err = awaitServer(ctx, filepath.Join(s.dir, "data", config.URLFile), ended); err != nil {
		text, _ := os.ReadFile(log.Name())
		return "", command.Fail("start the ebb to measure: "+err.Error()+"\n"+strings.TrimSpace(string(text)), "check the configuration with `ebb config check`")
	}
	return url, nil
}

// stop sends SIGTERM and waits until the process has ended.
func (s *server) stop() {
	if s.child == nil {
		return
	}
	_ = s.child.Process.Signal(syscall.SIGTERM)
	<-s.ended
	s.child = nil
}

// serverEnv returns the configuration of the measured ebb: the caller's database
// and Redis; everything else is its own.
func (c *cli) serverEnv(data, people, providers string) ([]string, error) {
	// Choose the port now, so that it stays the same when the process is
	// restarted.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	var env []string
	for _, line := range c.environ {
		name, _, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, "EBB_") || strings.HasPrefix(name, "EBB_REDIS_") || strings.HasPrefix(name, "EBB_DATABASE") || strings.HasPrefix(name, "EBB_SIGNING_ALG") {
			env = append(env, line)
		}
	}
	if c.configFile != "" { // the file may name a socket that is in use
		env = append(env, "EBB_LISTEN_UNIX="+filepath.Join(filepath.Dir(data), "ebb.sock"))
	}
	return append(env,
		"EBB_LISTEN="+l.Addr().String(), "EBB_DATA_DIR="+data, "EBB_PRINCIPALS="+people, "EBB_PROVIDERS="+providers,
		"EBB_LIMITS_OWNER_PER_MINUTE=100000000", "EBB_LIMITS_OWNER_LIVE=100000000", "EBB_LIMITS_MAX_LEASES=1000000", "EBB_LIMITS_MAX_MINTS_PER_MINUTE=1000000",
	), nil
}

// runnerID is the runner of an ebb that was started by a bench.
const runnerID = "bench-runner"

// principal is one principal in the format of EBB_PRINCIPALS.
type principal struct {
	ID        string            `json:"id"`
	Roles     []broker.Role     `json:"roles"`
	Audiences []string          `json:"audiences,omitempty"`
	Keys      []json.RawMessage `json:"keys"`
}

// newPrincipals makes a key for each principal and returns the value of
// EBB_PRINCIPALS.
func newPrincipals(people []principal) (string, []jose.Signer, error) {
	signers := make([]jose.Signer, len(people))
	for i := range people {
		var err error
		if signers[i], err = client.NewKey(jose.ES256); err != nil {
			return "", nil, err
		}
		jwk, err := keyfile.PublicJWK(signers[i])
		if err != nil {
			return "", nil, err
		}
		people[i].Keys = []json.RawMessage{jwk}
	}
	text, err := json.Marshal(people) // JSON is YAML
	return string(text), signers, err
}

// awaitServer waits until the ebb that writes its URL to path is ready.
func awaitServer(ctx context.Context, path string, ended <-chan struct{}) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", errors.New("not ready within 30s")
		case <-ended:
			return "", errors.New("the process ended")
		case <-t.C:
		}
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		url := strings.TrimSpace(string(text))
		resp, err := http.Get(url + "/readyz")
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return url, nil
		}
	}
}
