package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/attest/dpop"
	"ebb/broker/provider"
	"ebb/cmd/ebb/internal/ask"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

// issued is what `ebb token -o json` prints.
type issued struct {
	Token     string             `json:"access_token"`
	Type      string             `json:"token_type"`
	Format    string             `json:"issued_token_type,omitempty"`
	ExpiresAt time.Time          `json:"expires_at"`
	Scope     string             `json:"scope"`
	LeaseID   string             `json:"lease_id"`
	Class     string             `json:"revocability,omitempty"`
	TaskID    string             `json:"task_id,omitempty"`
	Endpoint  *provider.Endpoint `json:"endpoint,omitempty"`
}

var issuedColumns = []out.Column[issued]{
	{Name: "access_token", Cell: func(i issued) string { return i.Token }},
	{Name: "token_type", Cell: func(i issued) string { return i.Type }},
	{Name: "expires_at", Cell: func(i issued) string { return out.Time(i.ExpiresAt) }},
	{Name: "scope", Cell: func(i issued) string { return i.Scope }},
	{Name: "lease_id", Cell: func(i issued) string { return i.LeaseID }},
}

type tokenFlags struct {
	ticket, evidence, attestor, task string
	scope                            []string
	request                          client.TokenRequest
	use                              string
	publicKey                        string
}

func newToken(c *cli) *cobra.Command {
	var t tokenFlags
	cmd := &cobra.Command{
		Use: "token", Short: "Ask for a credential, as a sandbox", Args: cobra.NoArgs,
		Long: `Ask for a credential, as a sandbox, and print it, or a placeholder for it.

What ebb's egress proxy can add to requests stays in ebb by default (egress.enabled):
what is printed then is a placeholder, which stands for the credential in requests
through a box's proxy and is of no use anywhere else. --delivery token asks for the
credential itself, to which the built-in policy has a person say yes.

The first time, enrol: --ticket (EBB_TICKET; "-" reads it from standard input), or
--evidence with --task, or --attestor with --task alone when the attestor judges the
connection and there is nothing to send (unixpeer, over --socket). That makes the key
file --key (EBB_KEY_FILE) if there is none; afterwards the key file alone is enough.
A credential of ebb's own is bound to that key: with --use "METHOD URL" the two header
lines that use it once are printed instead, fit for curl -H @-. What a provider
certifies is named by --public-key (in no box of ebb run, where --ssh of the run does):

  ebb token --scope ssh:web/deploy:login --public-key id.pub --wait >id-cert.pub`,
	}
	f := cmd.Flags()
	f.StringVar(&t.ticket, "ticket", "", "enrolment ticket (EBB_TICKET)")
	f.StringVar(&t.evidence, "evidence", "", "`file` of the evidence of another attestor, - = standard input")
	f.StringVar(&t.attestor, "attestor", "", "attestor of the evidence; default: the one the task was opened with")
	f.StringVar(&t.task, "task", c.env("EBB_TASK_ID"), "task of the evidence (EBB_TASK_ID)")
	f.StringSliceVar(&t.scope, "scope", nil, "what the credential is for, repeatable; without it only enrol")
	f.StringVar(&t.request.Resource, "resource", "", "where it will be used, when the scope does not say")
	f.DurationVar(&t.request.TTL, "ttl", 0, "how long it is needed; policy may say less")
	f.StringVar(&t.request.Tool, "tool", "", "tool that needs it")
	f.StringVar(&t.request.Delivery, "delivery", "", "token: the credential itself; egress: a placeholder that ebb's egress proxy knows; default: egress where that can be")
	f.StringVar(&t.request.Reason, "reason", "", "why, for the person who may have to decide")
	f.BoolVar(&t.request.Wait, "wait", false, "wait when a person has to decide")
	f.StringVar(&t.publicKey, "public-key", "", "`file` with the public key to certify, one line")
	f.StringVar(&t.use, "use", "", "print header lines for one request: `\"METHOD URL\"`")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error { return c.token(cmd, &t) })
	return c.output(c.boxed(cmd))
}

func (c *cli) token(cmd *cobra.Command, t *tokenFlags) error {
	set, err := parseScopes(t.scope)
	if err != nil {
		return err
	}
	t.request.Scope = set
	if t.request.PublicKey, err = c.publicLine(t.publicKey); err != nil {
		return err
	}
	if c.keyFile == "" && c.env("EBB_ASK") != "" {
		return c.tokenInBox(cmd, t)
	}
	s, id, err := c.sandbox(cmd, t)
	if err != nil {
		return err
	}
	if set.Empty() {
		if cmd.Flags().Changed("output") {
			return out.One(c.stdout, c.format, issuedColumns, issued{TaskID: id.TaskID})
		}
		c.printf("enrolled %s for %s\n", id.ClientID, id.TaskID)
		return nil
	}
	t.request.Pending = func(p client.Pending) {
		c.sayf("ebb: a person has to decide; the answer is due in %s\n", p.ExpiresIn)
	}
	cred, err := s.Token(cmd.Context(), t.request)
	if err != nil {
		return err
	}
	return c.printToken(cmd, t, cred, id.TaskID, func(method, url string, token provider.Secret) (string, error) {
		return dpop.NewProof(id.Key, method, url, token.Reveal(), "", time.Now())
	})
}

// tokenInBox asks the runner, who has the key.
func (c *cli) tokenInBox(cmd *cobra.Command, t *tokenFlags) error {
	if t.request.Scope.Empty() {
		return usage("this box is enrolled already", "ask for something: --scope provider:resource:action")
	}
	a, err := c.asker()
	if err != nil {
		return err
	}
	cred, err := a.Token(cmd.Context(), t.request)
	if err != nil {
		return err
	}
	return c.printToken(cmd, t, cred, c.env("EBB_TASK_ID"), func(method, url string, token provider.Secret) (string, error) {
		return a.Prove(cmd.Context(), method, url, token)
	})
}

// prover makes the proof of one request with a credential (RFC 9449).
type prover func(method, url string, token provider.Secret) (string, error)

func (c *cli) printToken(cmd *cobra.Command, t *tokenFlags, cred client.Credential, taskID string, prove prover) error {
	if t.use != "" {
		return c.useLines(prove, cred, t.use)
	}
	if !cmd.Flags().Changed("output") {
		c.printf("%s\n", cred.Token.Reveal())
		return nil
	}
	return out.One(c.stdout, c.format, issuedColumns, issued{
		Token: cred.Token.Reveal(), Type: cred.Type, Format: cred.Format, ExpiresAt: cred.ExpiresAt, Scope: cred.Scope.String(), LeaseID: cred.LeaseID, TaskID: taskID,
		Class: string(cred.Class), Endpoint: cred.Endpoint,
	})
}

// publicLine reads the line of a .pub file. A private key, which lies beside it
// under almost the same name, must not be sent.
func (c *cli) publicLine(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := c.input(path, maxInput)
	if err != nil {
		return "", err
	}
	text = strings.TrimRight(text, "\r\n")
	if strings.Contains(text, "PRIVATE KEY") || strings.ContainsAny(text, "\r\n") {
		return "", usage(path+" is no public key in one line", "name the .pub file")
	}
	return text, nil
}

// useLines prints the header lines of one request (RFC 9449 section 7.1).
func (c *cli) useLines(prove prover, cred client.Credential, use string) error {
	if cred.Type == "N_A" {
		return usage("this credential is no access token", "leave out --use")
	}
	method, url, ok := strings.Cut(use, " ")
	if !ok {
		return usage("--use needs a method and a URL", `write --use "GET https://api.example.com/things"`)
	}
	proof, err := prove(method, url, cred.Token)
	if err != nil {
		return err
	}
	c.printf("Authorization: %s %s\nDPoP: %s\n", cred.Type, cred.Token.Reveal(), proof)
	return nil
}

// asker is the runner's socket, where this process is in a box.
func (c *cli) asker() (*ask.Client, error) {
	socket := c.env("EBB_ASK")
	if socket == "" {
		return nil, usage("this is no box of ebb run: EBB_ASK is not set", "start it with `ebb run`")
	}
	return ask.NewClient(socket), nil
}
