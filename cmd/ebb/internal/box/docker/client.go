//go:build linux

package docker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// patience is the timeout of one call of the daemon.
const patience = time.Minute

// client is the program docker and the daemon that it calls.
type client struct {
	program string
	host    string
	keep    string   // a directory of this run
	env     []string // without the user's configuration: its proxies and the like are not for sandboxes
}

// client finds the daemon, which must be on this machine.
func (k Kind) client(keep string) (*client, error) {
	program, err := exec.LookPath(cmp.Or(k.Program, "docker"))
	if err != nil {
		return nil, fmt.Errorf("the Docker client is not installed: %w", err)
	}
	c := &client{program: program, keep: keep, host: k.Host, env: os.Environ()}
	if c.host == "" {
		text, err := c.say("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
		if err != nil {
			return nil, err
		}
		c.host = strings.TrimSpace(text)
	}
	if !strings.HasPrefix(c.host, "unix:///") {
		return nil, fmt.Errorf("the Docker daemon at %q is not on this machine, so the processes of the sandbox cannot be identified", c.host)
	}
	config := filepath.Join(keep, "docker")
	if err := os.Mkdir(config, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	c.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + config, "DOCKER_CONFIG=" + config, "DOCKER_HOST=" + c.host}
	return c, nil
}

// command returns a command of the client, in a session of its own, so that
// keys pressed at the runner's terminal do not reach it.
func (c *client) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Env, cmd.Dir = c.env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// say runs a command and returns its output.
func (c *client) say(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := c.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", args[0], err, shown(errs.Bytes()))
	}
	return out.String(), nil
}

func (c *client) json(into any, args ...string) error {
	text, err := c.say(args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("docker %s: %w", args[0], err)
	}
	return nil
}

// maxShown is the maximum number of bytes of docker's output in an error.
const maxShown = 1000

// shown returns docker's output in one line of at most maxShown bytes, without
// control characters.
func shown(text []byte) string {
	line := strings.Join(strings.Fields(strings.ToValidUTF8(string(text[:min(len(text), maxShown)]), "?")), " ")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, line)
}
