package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/ask"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// tokenCommands holds ebb token, and the enrolment of a sandbox.
type tokenCommands struct{ *cli }

// issued is the output of `ebb token -o json`.
type issued struct {
	Token     string         `json:"access_token"`
	Type      string         `json:"token_type"`
	Format    string         `json:"issued_token_type,omitempty"`
	ExpiresAt time.Time      `json:"expires_at"`
	Scope     string         `json:"scope"`
	LeaseID   string         `json:"lease_id"`
	Class     string         `json:"revocability,omitempty"`
	TaskID    string         `json:"task_id,omitempty"`
	Endpoint  *wire.Endpoint `json:"endpoint,omitempty"`
}

var issuedColumns = []out.Column[issued]{
	{Name: "access_token", Cell: func(i issued) string { return i.Token }},
	{Name: "token_type", Cell: func(i issued) string { return i.Type }},
	{Name: "expires_at", Cell: func(i issued) string { return out.Time(i.ExpiresAt) }, Form: out.When},
	{Name: "scope", Cell: func(i issued) string { return i.Scope }, Form: out.Scope},
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
		Use: "token", Short: "Request a credential, as a sandbox", Args: cobra.NoArgs,
		Long: `Request a credential, as a sandbox, and print it, or a placeholder for it.

A credential that ebb's egress proxy can add to requests stays in ebb by default
(egress.enabled). The command then prints a placeholder, which stands for the credential
in requests through the proxy of a sandbox and does not work anywhere else. --delivery
token requests the credential itself, which needs an approval with the built-in policy.

The first call enrols: with --ticket (EBB_TICKET; "-" reads it from standard input), with
--evidence and --task, or with --attestor and --task alone if the attestor judges the
connection and needs no evidence (unixpeer, over --socket). It creates the key file --key
(EBB_KEY_FILE) if there is none; later calls need only the key file. A credential of ebb
itself is bound to that key: --use "METHOD URL" prints the two header lines for one
request with it instead, in the format of curl -H @-. --public-key names a key for the
provider to certify (not in a sandbox of ebb run, where --ssh of ebb run does that):

  ebb token --scope ssh:web/deploy:login --public-key id.pub --wait >id-cert.pub`,
	}
	f := cmd.Flags()
	f.StringVar(&t.ticket, "ticket", "", "enrolment ticket (EBB_TICKET)")
	f.StringVar(&t.evidence, "evidence", "", "`file` of the evidence of another attestor, - = standard input")
	f.StringVar(&t.attestor, "attestor", "", "attestor of the evidence; default: the attestor of the task")
	f.StringVar(&t.task, "task", c.env("EBB_TASK_ID"), "task of the evidence (EBB_TASK_ID)")
	f.StringSliceVar(&t.scope, "scope", nil, "scope of the credential, repeatable; without it the command only enrols")
	f.StringVar(&t.request.Resource, "resource", "", "URL of the API where it will be used, if the scope does not determine it")
	f.DurationVar(&t.request.TTL, "ttl", 0, "requested lifetime; policy may shorten it")
	f.StringVar(&t.request.Tool, "tool", "", "tool that will use the credential")
	f.Var(command.NewChoice(&t.request.Delivery, wire.DeliveryToken, wire.DeliveryEgress), "delivery", "token: the credential itself; egress: a placeholder for ebb's egress proxy; default: egress where the provider supports it")
	f.StringVar(&t.request.Reason, "reason", "", "why; shown to the approver if the request needs an approval")
	f.StringVar(&t.request.Content, "content", "", "`id` that a refusal names: an approval is then limited to the refused request")
	f.BoolVar(&t.request.Wait, "wait", false, "wait if the request needs an approval")
	f.StringVar(&t.publicKey, "public-key", "", "`file` with the public key to certify, one line")
	f.StringVar(&t.use, "use", "", "print header lines for one request: `\"METHOD URL\"`")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error { return tokenCommands{c}.token(cmd, &t) })
	return c.output(c.sandboxed(cmd))
}

func (c tokenCommands) token(cmd *cobra.Command, t *tokenFlags) error {
	set, err := parseScopes(t.scope)
	if err != nil {
		return err
	}
	t.request.Scope = set.String()
	if t.request.PublicKey, err = c.publicLine(t.publicKey); err != nil {
		return err
	}
	if c.keyFile == "" && c.env("EBB_ASK") != "" {
		return c.tokenInSandbox(cmd, t)
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
	cred, err := c.waiting(cmd, t, s)
	if err != nil {
		return err
	}
	return c.printToken(cmd, t, cred, id.TaskID, func(method, url string, token secret.Secret) (string, error) {
		return dpop.NewProof(id.Key, method, url, token.Reveal(), "", time.Now())
	})
}

// waiting requests the credential, and reports on standard error that the request waits for an approval.
func (c tokenCommands) waiting(cmd *cobra.Command, t *tokenFlags, s interface {
	Token(context.Context, client.TokenRequest) (client.Credential, error)
}) (client.Credential, error) {
	w := c.awaiting(t.request.Scope)
	t.request.Pending = w.told
	cred, err := s.Token(cmd.Context(), t.request)
	return cred, w.done(cmd.Context(), "the same command finds the request again: "+c.again(t), err)
}

// again returns the command line that finds the same request: without an enrolment, which is done, and whose ticket is a
// secret.
func (c tokenCommands) again(t *tokenFlags) string {
	line := "ebb token --wait"
	for _, flag := range [][2]string{
		{"scope", t.request.Scope}, {"key", c.keyFile}, {"url", c.url}, {"socket", c.socket}, {"resource", t.request.Resource}, {"tool", t.request.Tool},
		{"delivery", t.request.Delivery}, {"content", t.request.Content}, {"public-key", t.publicKey}, {"use", t.use},
	} {
		if flag[1] != "" {
			line += " --" + flag[0] + " '" + strings.ReplaceAll(flag[1], "'", `'\''`) + "'"
		}
	}
	return out.Line(line)
}

// tokenInSandbox requests the credential through the runner, which has the key.
func (c tokenCommands) tokenInSandbox(cmd *cobra.Command, t *tokenFlags) error {
	if t.request.Scope == "" {
		return usage("this sandbox is already enrolled", "request a credential with --scope provider:resource:action")
	}
	a, err := c.asker()
	if err != nil {
		return err
	}
	cred, err := c.waiting(cmd, t, a)
	if err != nil {
		return err
	}
	return c.printToken(cmd, t, cred, c.env("EBB_TASK_ID"), func(method, url string, token secret.Secret) (string, error) {
		return a.Prove(cmd.Context(), method, url, token)
	})
}

// prover makes a DPoP proof for one request with a credential (RFC 9449).
type prover func(method, url string, token secret.Secret) (string, error)

func (c tokenCommands) printToken(cmd *cobra.Command, t *tokenFlags, cred client.Credential, taskID string, prove prover) error {
	if t.use != "" {
		return c.useLines(prove, cred, t.use)
	}
	if !cmd.Flags().Changed("output") {
		c.printf("%s\n", cred.Token.Reveal())
		return nil
	}
	return out.One(c.stdout, c.format, issuedColumns, issued{
		Token: cred.Token.Reveal(), Type: cred.Type, Format: cred.Format, ExpiresAt: cred.ExpiresAt, Scope: cred.Scope, LeaseID: cred.LeaseID, TaskID: taskID,
		Class: string(cred.Class), Endpoint: cred.Endpoint,
	})
}

// publicLine reads the line of a .pub file. It refuses a private key, whose
// file has almost the same name.
func (c tokenCommands) publicLine(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := c.input(path, maxInput)
	if err != nil {
		return "", err
	}
	text = strings.TrimRight(text, "\r\n")
	if strings.Contains(text, "PRIVATE KEY") || strings.ContainsAny(text, "\r\n") {
		return "", usage(path+" is not a public key in one line", "name the .pub file")
	}
	return text, nil
}

// useLines prints the header lines for one request (RFC 9449 section 7.1).
func (c tokenCommands) useLines(prove prover, cred client.Credential, use string) error {
	if cred.Type == "N_A" {
		return usage("this credential is not an access token", "remove --use")
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

// asker returns a client of the runner's socket. It fails outside of a sandbox
// of ebb run.
func (c tokenCommands) asker() (*ask.Client, error) {
	socket := c.env("EBB_ASK")
	if socket == "" {
		return nil, usage("EBB_ASK is not set, so this is not a sandbox of ebb run", "start the command with `ebb run`")
	}
	return ask.NewClient(socket), nil
}

// sandbox returns a client that acts as the sandbox of the key file, and enrols
// it if a ticket, evidence or an attestor is given.
func (c tokenCommands) sandbox(cmd *cobra.Command, t *tokenFlags) (*client.Sandbox, keyfile.File, error) {
	none := keyfile.File{}
	if c.keyFile == "" {
		return nil, none, usage("a sandbox needs a key file", "name it with --key or EBB_KEY_FILE; enrolment creates it")
	}
	id, err := keyfile.Read(c.keyFile)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return nil, none, usage(err.Error(), "name the sandbox's own key file")
	}
	ticket := t.ticket
	if ticket == "" {
		ticket = c.env("EBB_TICKET")
	}
	if ticket == "" && t.evidence == "" && t.attestor == "" {
		if fresh {
			return nil, none, usage("there is no key file "+c.keyFile+" and no ticket", "enrol with --ticket or EBB_TICKET")
		}
		id.ClientID = cmp.Or(id.ClientID, c.env("EBB_CLIENT_ID"))
		s, err := c.newSandbox(id)
		return s, id, err
	}
	if fresh {
		if id.Key, err = client.NewKey(jose.ES256); err != nil {
			return nil, none, err
		}
	}
	s, err := c.newSandbox(keyfile.File{Key: id.Key})
	if err != nil {
		return nil, none, err
	}
	e, err := c.enrol(cmd, s, t, ticket)
	if err != nil {
		return nil, none, err
	}
	id.ClientID, id.TaskID = e.ClientID, e.TaskID
	if fresh {
		if err := keyfile.Write(c.keyFile, id); err != nil {
			return nil, none, fail(err.Error(), "choose a --key in a directory that this user can write to; the ticket is already used")
		}
	}
	return s, id, nil
}

func (c tokenCommands) newSandbox(id keyfile.File) (*client.Sandbox, error) {
	peer, err := c.peer()
	if err != nil {
		return nil, err
	}
	s, err := client.NewSandbox(client.SandboxConfig{Config: peer, Key: id.Key, ClientID: id.ClientID})
	if err != nil {
		return nil, usage("the ebb at "+shownURL(peer.Issuer)+" cannot be called: "+err.Error(), "check --url and --key")
	}
	return s, nil
}

func (c tokenCommands) enrol(cmd *cobra.Command, s *client.Sandbox, t *tokenFlags, ticket string) (client.Enrolment, error) {
	if t.evidence != "" || t.attestor != "" {
		if t.task == "" {
			return client.Enrolment{}, usage("evidence needs a task", "name it with --task or EBB_TASK_ID")
		}
		text, err := "", error(nil)
		if t.evidence != "" {
			text, err = c.input(t.evidence, maxInput)
		}
		if err != nil {
			return client.Enrolment{}, err
		}
		return s.EnrolEvidence(cmd.Context(), t.task, t.attestor, text)
	}
	if ticket == "-" {
		text, err := c.input("-", maxInput)
		if err != nil {
			return client.Enrolment{}, err
		}
		ticket = text
	}
	return s.Enrol(cmd.Context(), secret.New(ticket))
}
