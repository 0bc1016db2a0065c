package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/egressbench"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
)

// newUpstream runs the upstream of `ebb-bench egress`, in a process of its own.
func newUpstream(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "upstream DIR", Short: "The upstream of the bench", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: c.part(func(ctx context.Context, args []string, secret string) error {
			return egressbench.Serve(ctx, args[0], secret, func(address string) { c.printf("%s\n", address) })
		}),
	}
}

// newHeaderProxy runs the proxy that only sets a header.
func newHeaderProxy(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "bare DIR UPSTREAM", Short: "A proxy that only sets a header", Args: cobra.ExactArgs(2), Hidden: true,
		RunE: c.part(func(ctx context.Context, args []string, secret string) error {
			return egressbench.ServeHeaderProxy(ctx, args[0], args[1], secret, func() { c.printf("ready\n") })
		}),
	}
}

// part runs a part of the bench in a process of its own. The first line of
// its standard input is the secret; the process ends when its standard input is
// closed.
func (c *cli) part(serve func(ctx context.Context, args []string, secret string) error) func(*cobra.Command, []string) error {
	return c.do(func(cmd *cobra.Command, args []string) error {
		in := bufio.NewReader(c.stdin)
		secret, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		go func() {
			defer cancel()
			_, _ = io.Copy(io.Discard, in)
		}()
		return serve(ctx, args, strings.TrimSuffix(secret, "\n"))
	})
}

// startEgress starts the upstream, the bare proxy and the ebb, and sets
// their addresses and processes in b.
func (c *cli) startEgress(ctx context.Context, b *egressbench.Config) (stop func(), err error) {
	if b.Dir, err = os.MkdirTemp("", "ebb-bench-"); err != nil { // mode 0700
		return nil, command.Fail(err.Error(), "set TMPDIR to a directory that this user can write to")
	}
	var ends []func()
	end := func() {
		for i := range ends {
			ends[len(ends)-1-i]()
		}
		_ = os.RemoveAll(b.Dir)
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	if b.Ebb, err = c.ebbPath(); err != nil {
		return nil, err
	}
	if b.Roots, err = egressbench.NewCertificate(b.Dir); err != nil {
		return nil, err
	}
	b.Secret = "sk_bench_" + rand.Text()
	upstream, err := startPart(b, "upstream", b.Dir)
	if err != nil {
		return nil, err
	}
	ends = append(ends, upstream.end)
	b.Address = upstream.said
	bare, err := startPart(b, "bare", b.Dir, b.Address)
	if err != nil {
		return nil, err
	}
	ends = append(ends, bare.end)
	b.Bare = bare.pid
	s := &server{dir: b.Dir, ebb: b.Ebb, args: []string{"serve", "--resolve", egressbench.Host + "=127.0.0.1"}}
	if c.configFile != "" {
		s.args = append(s.args, "--config", c.configFile)
	}
	if s.env, err = c.egressEnv(b); err != nil {
		return nil, err
	}
	ends = append(ends, s.stop)
	if b.Issuer, err = s.start(ctx); err != nil {
		return nil, err
	}
	b.Server = s.child.Process.Pid
	return end, nil
}

// egressEnv returns the configuration of the ebb: a provider of kind
// static with the secret of the upstream, and a runner that may use it.
func (c *cli) egressEnv(b *egressbench.Config) ([]string, error) {
	b.RunnerID, b.KeyFile = runnerID, filepath.Join(b.Dir, "runner.key")
	people, signers, err := newPrincipals([]principal{{ID: b.RunnerID, Roles: []broker.Role{broker.RoleRunner, broker.RoleOperator}}})
	if err != nil {
		return nil, err
	}
	b.Runner = signers[0]
	if err := keyfile.Write(b.KeyFile, keyfile.File{ClientID: b.RunnerID, Key: b.Runner}); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(b.Address)
	if err != nil {
		return nil, err
	}
	host := net.JoinHostPort(egressbench.Host, port)
	providers := fmt.Sprintf(`[{name: %s, kind: static, resource: "https://%s", config: {secret: %s, hosts: [%q], inject: {header: Authorization, prefix: "Bearer "}, grants: {load: {read: {methods: [GET], paths: ["/v1/**"]}}}}}]`,
		egressbench.Provider, host, egressbench.Secret, host)
	env, err := c.serverEnv(filepath.Join(b.Dir, "data"), people, providers)
	return append(env, "EBB_EGRESS_ENABLED=true", "EBB_EGRESS_IDENTITY=socket", "EBB_EGRESS_PRIVATE_HOSTS="+egressbench.Host+"=127.0.0.1/32",
		"EBB_EGRESS_CA_FILE="+egressbench.Certificate(b.Dir), "EBB_LIMITS_USES_PER_MINUTE=100000000"), err
}

// part is a running part of the bench.
type part struct {
	pid  int
	said string // the line that it printed when it was ready
	end  func()
}

// startPart starts one part and waits until it is ready.
func startPart(b *egressbench.Config, args ...string) (part, error) {
	self, err := os.Executable()
	if err != nil {
		return part{}, err
	}
	child := exec.Command(self, append([]string{"egress"}, args...)...)
	in, err1 := child.StdinPipe()
	said, err2 := child.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return part{}, err
	}
	if err := child.Start(); err != nil {
		return part{}, err
	}
	p := part{pid: child.Process.Pid, end: func() {
		_ = in.Close()
		_ = child.Wait()
	}}
	_, err = io.WriteString(in, b.Secret+"\n")
	if err == nil {
		var line string
		line, err = bufio.NewReader(said).ReadString('\n')
		p.said = strings.TrimSuffix(line, "\n")
	}
	if err != nil {
		p.end()
		return part{}, fmt.Errorf("start the %s process of the bench: %w", args[0], err)
	}
	return p, nil
}
