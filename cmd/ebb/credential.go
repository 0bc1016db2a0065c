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

	"ebb/cmd/ebb/internal/awskeys"
	"ebb/scopes"
	"ebb/web/client"
)

func newCredential(c *cli) *cobra.Command {
	return c.group("credential", "Credential helpers: tools ask ebb in their own words",
		c.credentialGit(), c.credentialDocker(), c.credentialKubectl(), c.credentialAWS(), c.credentialSSH())
}

// helper is a command that answers a tool with one credential.
func (c *cli) helper(use, short string, args cobra.PositionalArgs, answer func(cmd *cobra.Command, args []string, get func(context.Context) (client.Credential, error)) error) *cobra.Command {
	var t tokenFlags
	cmd := &cobra.Command{Use: use, Short: short, Args: args}
	f := cmd.Flags()
	f.StringSliceVar(&t.scope, "scope", nil, "what the credential is for, repeatable")
	f.StringVar(&t.request.Tool, "tool", "", "tool that needs it")
	f.StringVar(&t.request.Delivery, "delivery", "", "token or egress; default: egress where that can be")
	f.StringVar(&t.request.Reason, "reason", "", "why, for the person who may have to decide")
	f.BoolVar(&t.request.Wait, "wait", false, "wait when a person has to decide")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		set, err := parseScopes(t.scope)
		if err != nil {
			return err
		}
		if set.Empty() {
			return usage("a helper needs --scope", "say what the credential is for: --scope provider:resource:action")
		}
		return answer(cmd, args, func(ctx context.Context) (client.Credential, error) { return c.ask(ctx, cmd, &t, set) })
	})
	return c.boxed(cmd)
}

// ask asks the runner in a box, and ebb itself elsewhere.
func (c *cli) ask(ctx context.Context, cmd *cobra.Command, t *tokenFlags, set scopes.Set) (client.Credential, error) {
	t.request.Scope = set
	t.request.Pending = func(client.Pending) { c.sayAsked(set) }
	if c.keyFile == "" && c.env("EBB_ASK") != "" {
		a, err := c.asker()
		if err != nil {
			return client.Credential{}, err
		}
		return a.Token(ctx, t.request)
	}
	s, _, err := c.sandbox(cmd, t)
	if err != nil {
		return client.Credential{}, err
	}
	return s.Token(ctx, t.request)
}

// bearer is a credential that a tool can send by itself: a placeholder, or a token that
// needs no proof of a key.
func bearer(cred client.Credential, err error) (string, error) {
	if err != nil {
		return "", err
	}
	token := cred.Token.Reveal()
	if cred.Type == "DPoP" || strings.ContainsAny(token, " \t\r\n\x00") {
		return "", usage("the credential is bound to a key, which the tool does not know how to use", "let policy say @deliver(\"egress\") for it, or use `ebb token --use`")
	}
	return token, nil
}

// attributes reads what git says (git-credential(1)): lines of name=value up to an empty one.
func attributes(in io.Reader) (map[string]string, error) {
	said := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(in, maxInput))
	for lines.Scan() && lines.Text() != "" {
		name, value, two := strings.Cut(lines.Text(), "=")
		if !two {
			return nil, usage("that is not what git says to a credential helper", "let git start it: git config credential.https://HOST.helper '!ebb credential git --scope ...'")
		}
		said[name] = value
	}
	return said, lines.Err()
}

func (c *cli) credentialGit() *cobra.Command {
	cmd := c.helper("git [get|store|erase]", "Answer git (git-credential)", cobra.MaximumNArgs(1), func(cmd *cobra.Command, args []string, get func(context.Context) (client.Credential, error)) error {
		if len(args) == 0 || args[0] != "get" {
			return nil // there is nothing to keep, and nothing to forget
		}
		said, err := attributes(c.stdin)
		if err != nil {
			return err
		}
		if said["protocol"] != "https" {
			return nil // in the clear nobody sends a credential
		}
		token, err := bearer(get(cmd.Context()))
		if err != nil {
			c.printf("quit=1\n") // or git would ask at the terminal
			return err
		}
		c.printf("username=%s\npassword=%s\n", cmp.Or(said["username"], "x-access-token"), token)
		return nil
	})
	cmd.Long = "Answer git (git-credential). For a host of yours:\n\n  git config credential.https://github.com.helper \"!ebb credential git --scope 'github:...'\""
	return cmd
}

func (c *cli) credentialDocker() *cobra.Command {
	cmd := c.helper("docker get|store|erase|list", "Answer docker, podman and skopeo (docker-credential-helpers)", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string, get func(context.Context) (client.Credential, error)) error {
		switch args[0] {
		case "list":
			c.printf("{}\n")
			return nil
		case "store", "erase":
			return nil
		case "get":
		default:
			return usage("docker says get, store, erase or list", "name ebb in credHelpers, behind a program docker-credential-NAME")
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

// execCredential is what kubectl reads (client.authentication.k8s.io).
type execCredential struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Status     struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expirationTimestamp"`
	} `json:"status"`
}

func (c *cli) credentialKubectl() *cobra.Command {
	cmd := c.helper("kubectl", "Answer kubectl and other clients of Kubernetes (exec plugin)", cobra.NoArgs, func(cmd *cobra.Command, _ []string, get func(context.Context) (client.Credential, error)) error {
		e := execCredential{APIVersion: "client.authentication.k8s.io/v1", Kind: "ExecCredential"}
		var info struct {
			APIVersion string `json:"apiVersion"`
		}
		if text := c.env("KUBERNETES_EXEC_INFO"); text != "" {
			if err := json.Unmarshal([]byte(text), &info); err != nil {
				return usage("KUBERNETES_EXEC_INFO: "+err.Error(), "let kubectl start it, as users.user.exec of its configuration")
			}
		}
		switch info.APIVersion {
		case "", e.APIVersion:
		case "client.authentication.k8s.io/v1beta1":
			e.APIVersion = info.APIVersion
		default:
			return usage("ebb does not speak "+info.APIVersion, "configure client.authentication.k8s.io/v1")
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

func (c *cli) credentialAWS() *cobra.Command {
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
