package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/awskeys"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
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
	f.StringVar(&t.request.Delivery, "delivery", "", "token or egress; default: egress where the provider supports it")
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
	return c.boxed(cmd)
}

// ask requests the credential from the runner if the command runs in a sandbox of ebb run, and
// else from ebb.
func (c credentialCommands) ask(ctx context.Context, cmd *cobra.Command, t *tokenFlags, set scopes.Set) (client.Credential, error) {
	t.request.Scope = set.String()
	t.request.Pending = func(client.Pending) { runReport(c).sayAsked(set.String()) }
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
