package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/ask"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/awskeys"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sshagent"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// credentialCommands holds the sub-commands of ebb credential.
type credentialCommands struct{ *cli }

func newCredential(c *cli) *cobra.Command {
	return c.group("credential", "Credential helpers for git, docker, kubectl, AWS and ssh",
		credentialCommands{c}.credentialGit(), credentialCommands{c}.credentialDocker(), credentialCommands{c}.credentialKubectl(), credentialCommands{c}.credentialAWS(), credentialCommands{c}.credentialSSH())
}

// helper makes a command that answers a tool with one credential.
func (c credentialCommands) helper(use, short string, args cobra.PositionalArgs, answer func(cmd *cobra.Command, args []string, get func(context.Context) (client.Credential, error)) error) *cobra.Command {
	var t tokenFlags
	cmd := &cobra.Command{Use: use, Short: short, Args: args}
	f := cmd.Flags()
	f.StringSliceVar(&t.scope, "scope", nil, "scope of the credential, repeatable")
	f.StringVar(&t.request.Tool, "tool", "", "tool that will use the credential")
	f.Var(command.NewChoice(&t.request.Delivery, wire.DeliveryToken, wire.DeliveryEgress), "delivery", "token or egress; default: egress where the provider supports it")
	f.StringVar(&t.request.Reason, "reason", "", "why; shown to the approver if the request needs an approval")
	f.BoolVar(&t.request.Wait, "wait", false, "wait if the request needs an approval")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		set, err := parseScopes(t.scope)
		if err != nil {
			return err
		}
		if set.Empty() {
			return usage("a helper needs --scope", "name the credential's scope: --scope provider:resource:action")
		}
		return answer(cmd, args, func(ctx context.Context) (client.Credential, error) { return c.ask(ctx, cmd, &t, set) })
	})
	return c.sandboxed(cmd)
}

// ask requests the credential from the runner if the command runs in a sandbox of ebb run, and
// else from ebb.
func (c credentialCommands) ask(ctx context.Context, cmd *cobra.Command, t *tokenFlags, set scopes.Set) (client.Credential, error) {
	t.request.Scope = set.String()
	t.request.Pending = func(p client.Pending) { c.sayAsked(set.String(), p) }
	if c.keyFile == "" && c.env("EBB_ASK") != "" {
		a, err := tokenCommands(c).asker()
		if err != nil {
			return client.Credential{}, err
		}
		return a.Token(ctx, t.request)
	}
	s, _, err := tokenCommands(c).sandbox(cmd, t)
	if err != nil {
		return client.Credential{}, err
	}
	return s.Token(ctx, t.request)
}

// bearer returns a credential that a tool can send as it is: a placeholder, or
// a token that needs no proof of a key.
func bearer(cred client.Credential, err error) (string, error) {
	if err != nil {
		return "", err
	}
	token := cred.Token.Reveal()
	if cred.Type == "DPoP" || strings.ContainsAny(token, " \t\r\n\x00") {
		return "", usage("the credential is bound to a key, and the tool cannot prove possession of it", "add @deliver(\"egress\") to its policy, or use `ebb token --use`")
	}
	return token, nil
}

// attributes reads the input of a git credential helper (git-credential(1)):
// lines of name=value up to an empty line.
func attributes(in io.Reader) (map[string]string, error) {
	said := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(in, maxInput))
	for lines.Scan() && lines.Text() != "" {
		name, value, two := strings.Cut(lines.Text(), "=")
		if !two {
			return nil, usage("the input is not in the format of git-credential", "let git start it: git config credential.https://HOST.helper '!ebb credential git --scope ...'")
		}
		said[name] = value
	}
	return said, lines.Err()
}

func (c credentialCommands) credentialGit() *cobra.Command {
	cmd := c.helper("git [get|store|erase]", "Answer git (git-credential)", cobra.MaximumNArgs(1), func(cmd *cobra.Command, args []string, get func(context.Context) (client.Credential, error)) error {
		if len(args) == 0 || args[0] != "get" {
			return nil // the command stores nothing, so there is nothing to erase
		}
		said, err := attributes(c.stdin)
		if err != nil {
			return err
		}
		if said["protocol"] != "https" {
			return nil // never give git a credential for a connection without TLS
		}
		token, err := bearer(get(cmd.Context()))
		if err != nil {
			c.printf("quit=1\n") // else git would ask at the terminal
			return err
		}
		c.printf("username=%s\npassword=%s\n", cmp.Or(said["username"], "x-access-token"), token)
		return nil
	})
	cmd.Long = "Answer git (git-credential). Configure it per host:\n\n  git config credential.https://github.com.helper \"!ebb credential git --scope 'github:...'\""
	return cmd
}

func (c credentialCommands) credentialDocker() *cobra.Command {
	cmd := c.helper("docker get|store|erase|list", "Answer docker, podman and skopeo (docker-credential-helpers)", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string, get func(context.Context) (client.Credential, error)) error {
		switch args[0] {
		case "list":
			c.printf("{}\n")
			return nil
		case "store", "erase":
			return nil
		case "get":
		default:
			return usage("the argument must be get, store, erase or list", "name a program docker-credential-NAME that starts ebb in credHelpers")
		}
		server, err := c.input("-", maxInput)
		if err != nil {
			return err
		}
		token, err := bearer(get(cmd.Context()))
		if err != nil {
			return err
		}
		return json.NewEncoder(c.stdout).Encode(struct{ ServerURL, Username, Secret string }{server, "ebb", token})
	})
	cmd.Long = "Answer docker, podman and skopeo. They start a program docker-credential-NAME, such as\n\n  #!/bin/sh\n  exec ebb credential docker --scope '...' \"$@\""
	return cmd
}

// execCredential is the output for kubectl (client.authentication.k8s.io).
type execCredential struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Status     struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expirationTimestamp"`
	} `json:"status"`
}

func (c credentialCommands) credentialKubectl() *cobra.Command {
	cmd := c.helper("kubectl", "Answer kubectl and other clients of Kubernetes (exec plugin)", cobra.NoArgs, func(cmd *cobra.Command, _ []string, get func(context.Context) (client.Credential, error)) error {
		e := execCredential{APIVersion: "client.authentication.k8s.io/v1", Kind: "ExecCredential"}
		var info struct {
			APIVersion string `json:"apiVersion"`
		}
		if text := c.env("KUBERNETES_EXEC_INFO"); text != "" {
			if err := json.Unmarshal([]byte(text), &info); err != nil {
				return usage("KUBERNETES_EXEC_INFO: "+err.Error(), "have kubectl start the command, as users.user.exec of its configuration")
			}
		}
		switch info.APIVersion {
		case "", e.APIVersion:
		case "client.authentication.k8s.io/v1beta1":
			e.APIVersion = info.APIVersion
		default:
			return usage("KUBERNETES_EXEC_INFO asks for an unsupported API version "+info.APIVersion, "configure client.authentication.k8s.io/v1")
		}
		cred, err := get(cmd.Context())
		if e.Status.Token, err = bearer(cred, err); err != nil {
			return err
		}
		e.Status.Expires = cred.ExpiresAt
		return json.NewEncoder(c.stdout).Encode(e)
	})
	cmd.Long = "Answer kubectl and other clients of Kubernetes. In a kubeconfig:\n\n  exec: {apiVersion: client.authentication.k8s.io/v1, command: ebb, args: [credential, kubectl, --scope, 'cluster:...'], interactiveMode: Never}"
	return cmd
}

func (c credentialCommands) credentialAWS() *cobra.Command {
	cmd := c.helper("aws", "Answer the AWS CLI and SDKs (credential_process)", cobra.NoArgs, func(cmd *cobra.Command, _ []string, get func(context.Context) (client.Credential, error)) error {
		cred, err := get(cmd.Context())
		if err != nil {
			return err
		}
		keys, err := awskeys.Of(cred)
		if errors.Is(err, awskeys.ErrOther) {
			return usage(err.Error(), "name a scope of a provider of kind aws")
		}
		if err != nil {
			return err
		}
		return json.NewEncoder(c.stdout).Encode(keys.Process())
	})
	cmd.Long = "Answer the AWS CLI and SDKs. In ~/.aws/config:\n\n  credential_process = ebb credential aws --scope 'aws:...'"
	return cmd
}

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
	return c.sandboxed(cmd)
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
	t.request.Pending = func(p client.Pending) { c.sayAsked(set.String(), p) }
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
