package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/cmd/ebb/internal/ask"
	"ebb/cmd/ebb/internal/out"
	"ebb/cmd/ebb/internal/sshagent"
	"ebb/scopes"
	"ebb/scopes/policy"
	"ebb/web/client"
)

// sshFormat is the issued_token_type of a line with an SSH certificate.
const sshFormat = "urn:ebb:token-type:ssh-certificate"

func (c *cli) credentialSSH() *cobra.Command {
	var t tokenFlags
	var socket string
	cmd := &cobra.Command{
		Use: "ssh-agent", Short: "Answer ssh (an agent), until it is stopped", Args: cobra.NoArgs,
		Long: `Answer ssh, scp, git and rsync: an SSH agent with one certificate over a key of its own,
which no other process sees. It asks for the certificate at once, and again when it has
expired; it signs logins of the certificate's users and nothing else, while ebb says that
the certificate is alive. In a box of ebb run there is one: ebb run --ssh HOST=SCOPE.

  ebb credential ssh-agent --scope ssh:web/deploy:login -a ./agent.sock &
  SSH_AUTH_SOCK=./agent.sock ssh deploy@web-1.example.com`,
	}
	f := cmd.Flags()
	f.StringSliceVar(&t.scope, "scope", nil, "what the certificate is for, repeatable")
	f.StringVarP(&socket, "socket-path", "a", "", "`path` of the agent's socket; default: in a new directory")
	f.StringVar(&t.request.Tool, "tool", "", "tool that needs it")
	f.StringVar(&t.request.Reason, "reason", "", "why, for the person who may have to decide")
	f.BoolVar(&t.request.Wait, "wait", false, "wait when a person has to decide")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		set, err := parseScopes(t.scope)
		switch {
		case err != nil:
			return err
		case set.Empty():
			return usage("the agent needs --scope", "say what the certificate is for: --scope ssh:group/login:login")
		case c.keyFile == "" && c.env("EBB_ASK") != "":
			return usage("in a box the private key would be in it", "have the runner keep it: ebb run --ssh HOST=SCOPE")
		}
		return c.sshAgent(cmd, &t, set, socket)
	})
	return c.boxed(cmd)
}

// agentLog says to the person why an agent signs nothing.
func (c *cli) agentLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// sshAgent serves an agent until the command is told to stop.
func (c *cli) sshAgent(cmd *cobra.Command, t *tokenFlags, set scopes.Set, path string) error {
	ctx := cmd.Context()
	s, _, err := c.sandbox(cmd, t)
	if err != nil {
		return err
	}
	t.request.Scope = set
	t.request.Pending = func(client.Pending) { c.sayAsked(set) }
	a, err := sshagent.New(sshagent.Config{
		Identities: []sshagent.Identity{{Name: set.String(), Issue: issueSSH(s, t.request)}},
		State:      stateOf(s), Logger: c.agentLog(),
	})
	if err != nil {
		return err
	}
	l, at, remove, err := agentSocket(path)
	if err != nil {
		return fail(err.Error(), "name a new path in a directory of yours with -a")
	}
	defer remove()
	if _, err := a.Ready(ctx); err != nil {
		return errors.Join(err, l.Close())
	}
	c.printf("SSH_AUTH_SOCK=%s; export SSH_AUTH_SOCK;\n", out.Line(at))
	if err := a.Serve(ctx, l); ctx.Err() == nil {
		return fail(err.Error(), "start it again")
	}
	return nil
}

// agentSocket listens where only this user can connect. It replaces nothing: the socket gets the
// name that was asked for when it is closed to others.
func agentSocket(path string) (l net.Listener, at string, remove func(), err error) {
	base := os.TempDir()
	if path != "" {
		if path, err = filepath.Abs(path); err != nil {
			return nil, "", nil, err
		}
		base = filepath.Dir(path)
	}
	dir, err := os.MkdirTemp(base, ".ebb-agent-") // mode 0700
	if err != nil {
		return nil, "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	at = filepath.Join(dir, "socket")
	if l, err = net.Listen("unix", at); err != nil {
		remove()
		return nil, "", nil, err
	}
	if err = os.Chmod(at, 0o600); err == nil && path != "" {
		if err = os.Link(at, path); err == nil {
			all := remove
			at, remove = path, func() { _ = os.Remove(path); all() }
		}
	}
	if err != nil {
		_ = l.Close()
		remove()
	}
	return l, at, remove, err
}

// issueSSH asks for a certificate over a key that stays in this process.
func issueSSH(s ask.Sandbox, r client.TokenRequest) func(context.Context, string) (sshagent.Issued, error) {
	return func(ctx context.Context, publicKey string) (sshagent.Issued, error) {
		r := r
		r.PublicKey, r.Delivery = publicKey, policy.DeliveryToken
		cred, err := s.Token(ctx, r)
		if err != nil {
			return sshagent.Issued{}, err
		}
		if cred.Format != sshFormat {
			return sshagent.Issued{}, usage("what "+r.Scope.String()+" is given is no SSH certificate", "name a scope of a provider of kind ssh")
		}
		return sshagent.Issued{Line: cred.Token.Reveal(), LeaseID: cred.LeaseID, ExpiresAt: cred.ExpiresAt}, nil
	}
}

// stateOf says how it is with a lease of a sandbox.
func stateOf(s ask.Sandbox) func(context.Context, string) (broker.LeaseState, error) {
	return func(ctx context.Context, leaseID string) (broker.LeaseState, error) {
		ctx, cancel := context.WithTimeout(ctx, stateTime)
		defer cancel()
		all, err := s.Credentials(ctx)
		if err != nil {
			return "", err
		}
		for _, g := range all {
			if g.LeaseID == leaseID {
				return g.State, nil
			}
		}
		return "", nil
	}
}

// stateTime is how long ebb has to say whether a certificate is alive.
const stateTime = 10 * time.Second
