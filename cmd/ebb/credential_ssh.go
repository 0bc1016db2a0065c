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

	"github.com/ebb-broker/ebb/cmd/ebb/internal/ask"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sshagent"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// sshFormat is the issued_token_type of an SSH certificate.
const sshFormat = "urn:ebb:token-type:ssh-certificate"

func (c credentialCommands) credentialSSH() *cobra.Command {
	var t tokenFlags
	var socket string
	cmd := &cobra.Command{
		Use: "ssh-agent", Short: "Run an SSH agent, until it is stopped", Args: cobra.NoArgs,
		Long: `Run an SSH agent for ssh, scp, git and rsync, with one certificate over a key that
never leaves this process. The agent requests the certificate at once, and again when it
has expired. It signs only logins as the certificate's users, and only while ebb reports
that the certificate is active. A sandbox of ebb run gets one with: ebb run --ssh HOST=SCOPE.

  ebb credential ssh-agent --scope ssh:web/deploy:login -a ./agent.sock &
  SSH_AUTH_SOCK=./agent.sock ssh deploy@web-1.example.com`,
	}
	f := cmd.Flags()
	f.StringSliceVar(&t.scope, "scope", nil, "scope of the certificate, repeatable")
	f.StringVarP(&socket, "socket-path", "a", "", "`path` of the agent's socket; default: in a new directory")
	f.StringVar(&t.request.Tool, "tool", "", "tool that will use the certificate")
	f.StringVar(&t.request.Reason, "reason", "", "why; shown to the approver if the request needs an approval")
	f.BoolVar(&t.request.Wait, "wait", false, "wait if the request needs an approval")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		set, err := parseScopes(t.scope)
		switch {
		case err != nil:
			return err
		case set.Empty():
			return usage("the agent needs --scope", "name the certificate's scope: --scope ssh:group/login:login")
		case c.keyFile == "" && c.env("EBB_ASK") != "":
			return usage("the agent would keep its private key inside the sandbox", "let the runner keep the key: ebb run --ssh HOST=SCOPE")
		}
		return c.sshAgent(cmd, &t, set, socket)
	})
	return c.boxed(cmd)
}

// agentLog logs to standard error why the agent refuses to sign.
func (c credentialCommands) agentLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// sshAgent serves an agent until the context ends.
func (c credentialCommands) sshAgent(cmd *cobra.Command, t *tokenFlags, set scopes.Set, path string) error {
	ctx := cmd.Context()
	s, _, err := tokenCommands(c).sandbox(cmd, t)
	if err != nil {
		return err
	}
	t.request.Scope = set.String()
	t.request.Pending = func(client.Pending) { runReport(c).sayAsked(set.String()) }
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

// agentSocket listens on a socket that only this user can connect to. It
// replaces no file: the socket is linked to path after its mode is set to 0600.
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

// issueSSH requests a certificate over a key that stays in this process.
func issueSSH(s ask.Sandbox, r client.TokenRequest) func(context.Context, string) (sshagent.Issued, error) {
	return func(ctx context.Context, publicKey string) (sshagent.Issued, error) {
		r := r
		r.PublicKey, r.Delivery = publicKey, wire.DeliveryToken
		cred, err := s.Token(ctx, r)
		if err != nil {
			return sshagent.Issued{}, err
		}
		if cred.Format != sshFormat {
			return sshagent.Issued{}, usage("the credential for "+r.Scope+" is not an SSH certificate", "name a scope of a provider of kind ssh")
		}
		return sshagent.Issued{Line: cred.Token.Reveal(), LeaseID: cred.LeaseID, ExpiresAt: cred.ExpiresAt}, nil
	}
}

// stateOf returns a function that looks up the state of a lease of a sandbox.
func stateOf(s ask.Sandbox) func(context.Context, string) (wire.LeaseState, error) {
	return func(ctx context.Context, leaseID string) (wire.LeaseState, error) {
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

// stateTime is the timeout of a lookup of a certificate's state.
const stateTime = 10 * time.Second
