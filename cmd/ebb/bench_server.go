package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/cmd/ebb/internal/bench"
	"ebb/scopes"
	"ebb/web/client"
)

// benchServer starts an ebb in a process of its own, so that its memory and the
// generator's are apart, and fills in how to reach it.
func (c *cli) benchServer(ctx context.Context, b *bench.Config) (stop func(), err error) {
	set, err := scopes.ParseSet(b.Scope)
	if err != nil || set.Len() != 1 {
		return nil, usage("--scope must be one scope", "write one such as bench:load/1:read")
	}
	dir, err := os.MkdirTemp("", "ebb-bench-")
	if err != nil {
		return nil, fail(err.Error(), "set TMPDIR to a directory that this user can write to")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	b.Resource = "https://bench.invalid/api"
	people, err := benchPeople(b)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"serve"}
	if c.configFile != "" {
		args = append(args, "--config", c.configFile)
	}
	child := exec.Command(self, args...)
	child.Env = c.benchEnv(filepath.Join(dir, "data"), people, set.Providers()[0], b.Resource)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	child.Stdout, child.Stderr = log, log
	if err := child.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = child.Wait() // its own log says why
		close(ended)
	}()
	stop = func() {
		_ = child.Process.Signal(syscall.SIGTERM)
		<-ended
		_ = os.RemoveAll(dir)
	}
	if b.Issuer, err = awaitServer(ctx, filepath.Join(dir, "data", urlFile), ended); err != nil {
		text, _ := os.ReadFile(log.Name())
		stop()
		return nil, fail("the ebb to be measured did not start: "+err.Error()+"\n"+strings.TrimSpace(string(text)), "check the configuration with `ebb config check`")
	}
	return stop, nil
}

// benchEnv is the configuration of the measured ebb: the caller's stores, and
// everything else its own.
func (c *cli) benchEnv(data, people, provider, resource string) []string {
	var env []string
	for _, line := range c.environ {
		name, _, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, "EBB_") || strings.HasPrefix(name, "EBB_REDIS_") || strings.HasPrefix(name, "EBB_DATABASE") || strings.HasPrefix(name, "EBB_SIGNING_ALG") {
			env = append(env, line)
		}
	}
	return append(env,
		"EBB_LISTEN=127.0.0.1:0", "EBB_DATA_DIR="+data, "EBB_PRINCIPALS="+people,
		fmt.Sprintf("EBB_PROVIDERS=[{name: %s, kind: jwt, resource: %q}]", provider, resource),
		"EBB_LIMITS_OWNER_PER_MINUTE=100000000", "EBB_LIMITS_MAX_LEASES=1000000", "EBB_LIMITS_MAX_MINTS_PER_MINUTE=1000000",
	)
}

// benchPeople makes the keys of the runner and of the resource server and
// describes both as the value of EBB_PRINCIPALS.
func benchPeople(b *bench.Config) (string, error) {
	type person struct {
		ID        string            `json:"id"`
		Roles     []broker.Role     `json:"roles"`
		Audiences []string          `json:"audiences,omitempty"`
		Keys      []json.RawMessage `json:"keys"`
	}
	b.RunnerID, b.ServerID = "bench-runner", "bench-server"
	people := []person{{ID: b.RunnerID, Roles: []broker.Role{broker.RoleRunner}}, {ID: b.ServerID, Roles: []broker.Role{broker.RoleResourceServer}, Audiences: []string{b.Resource}}}
	for i, signer := range []*jose.Signer{&b.Runner, &b.Server} {
		var err error
		if *signer, err = client.NewKey(jose.ES256); err != nil {
			return "", err
		}
		jwk, err := publicJWK(*signer)
		if err != nil {
			return "", err
		}
		people[i].Keys = []json.RawMessage{jwk}
	}
	text, err := json.Marshal(people) // JSON is YAML
	return string(text), err
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
			return "", errors.New("it did not get ready in time")
		case <-ended:
			return "", errors.New("it ended")
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
