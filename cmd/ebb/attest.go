package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// attestCommands holds the sub-commands of ebb attest.
type attestCommands struct{ *cli }

var attestorColumns = []out.Column[wire.Attestor]{
	{Name: "name", Cell: func(a wire.Attestor) string { return a.Name }},
	{Name: "for", Cell: func(a wire.Attestor) string {
		if a.People {
			return "principals"
		}
		return "sandboxes"
	}},
	{Name: "challenges", Cell: func(a wire.Attestor) string { return strconv.FormatBool(a.Challenges) }},
	{Name: "sees_exit", Cell: func(a wire.Attestor) string { return strconv.FormatBool(a.Watches) }},
	{Name: "on_sandbox_exit", Cell: func(a wire.Attestor) string { return string(a.OnSandboxExit) }},
	{Name: "reattest", Cell: func(a wire.Attestor) string {
		if a.Reattest == 0 {
			return ""
		}
		return (time.Duration(a.Reattest) * time.Second).String()
	}},
	{Name: "on_missed_attestation", Cell: func(a wire.Attestor) string { return string(a.OnMissedAttestation) }},
}

func newAttest(c *cli) *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the configured attestors and their action when a sandbox exits", Args: cobra.NoArgs}
	list.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		items, err := o.Attestors.List(cmd.Context())
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, attestorColumns, items)
	})
	return c.group("attest", "List attestors; explain how evidence is judged", c.output(c.remote(list)), attestCommands{c}.attestExplain(), attestCommands{c}.attestChallenge())
}

// explainedLine is one line of an explanation: a check that passed, a fact that
// the evidence shows, or the reason for a refusal.
type explainedLine struct{ state, check, found string }

var explainedColumns = []out.Column[explainedLine]{
	{Name: "state", Cell: func(l explainedLine) string { return l.state }},
	{Name: "check", Cell: func(l explainedLine) string { return l.check }},
	{Name: "found", Cell: func(l explainedLine) string { return l.found }, Form: out.Prose},
}

func (c attestCommands) attestExplain() *cobra.Command {
	var q wire.EvidenceQuery
	var jwk string
	cmd := &cobra.Command{
		Use: "explain ATTESTOR FILE", Short: "Explain step by step how evidence is judged and why it would be refused", Args: cobra.ExactArgs(2),
		Long: `Explain step by step how evidence is judged, what it proves, and why it would be
refused; with --task also whether it would be accepted for that task. FILE - is
standard input. Nothing is claimed or counted, and no sandbox is enrolled.
Evidence that is bound to a key needs --jwk, the sandbox's public key. Exit code 3
if the evidence would be refused.`,
	}
	cmd.Flags().StringVar(&q.TaskID, "task", "", "also judge the evidence for this task")
	cmd.Flags().StringVar(&jwk, "jwk", "", "`file` with the sandbox's public key as a JWK")
	cmd.Flags().StringVar(&q.X5T, "x5t", "", "x5t#S256 of the sandbox's certificate")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		text, err := c.input(args[1], attest.MaxDocument)
		if err != nil {
			return err
		}
		if jwk != "" {
			key, err := c.input(jwk, maxInput)
			if err != nil {
				return err
			}
			q.JWK = json.RawMessage(key)
			if !json.Valid(q.JWK) {
				return usage(jwk+" is not JSON", "name a file with the public key as a JWK (RFC 7517)")
			}
		}
		q.Evidence = strings.TrimSpace(text)
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		x, err := o.Attestors.Explain(cmd.Context(), args[0], q)
		if err != nil {
			return err
		}
		if c.format == out.JSON {
			err = out.One(c.stdout, c.format, nil, x)
		} else {
			err = out.List(c.stdout, c.format, explainedColumns, linesOf(x))
		}
		if err == nil && (x.Verdict != wire.EvidenceAccepted || x.Task != nil && !x.Task.Accepted) {
			return &failure{Code: exitRefused, Text: "this evidence would not be accepted", Next: "see the lines whose state is not ok"}
		}
		return err
	})
	return c.output(c.remote(cmd))
}

// linesOf converts an explanation to the lines of the table, in the order of
// the checks.
func linesOf(x wire.EvidenceExplanation) (lines []explainedLine) {
	add := func(state, check, found string) { lines = append(lines, explainedLine{state, check, found}) }
	for _, s := range x.Steps {
		add("ok", s.Check, s.Found)
	}
	if id := x.Identity; id != nil {
		add("ok", "subject", id.Subject)
		add("ok", "class "+id.Class, id.Proves)
		add("ok", "selectors", out.Pairs(id.Selectors))
		if !id.NotAfter.IsZero() {
			add("ok", "valid until", out.Time(id.NotAfter))
		}
		if id.Key != "" {
			add("ok", "bound to key", id.Key)
		}
	}
	if x.Verdict != wire.EvidenceAccepted {
		add(string(x.Verdict), x.Reason, x.Why)
	}
	if t := x.Task; t != nil {
		for _, s := range t.Selectors {
			state := "ok"
			if !s.Equal {
				state = "differs"
			}
			add(state, "registered "+s.Name+"="+s.Registered, s.Shown)
		}
		if t.Accepted {
			add("ok", "task "+t.ID, "accepted")
		} else {
			add("refused", "task "+t.ID, t.Why)
		}
	}
	return lines
}

// challenged is the output of `ebb attest challenge`.
type challenged struct {
	Nonce     string          `json:"nonce"`
	Document  json.RawMessage `json:"document,omitempty"`
	ExpiresAt time.Time       `json:"expires_at"`
	JKT       string          `json:"jkt"` // thumbprint of the key that the answer is for
}

var challengedColumns = []out.Column[challenged]{
	{Name: "nonce", Cell: func(c challenged) string { return c.Nonce }},
	{Name: "jkt", Cell: func(c challenged) string { return c.JKT }},
	{Name: "expires_at", Cell: func(c challenged) string { return out.Time(c.ExpiresAt) }, Form: out.When},
	{Name: "document", Cell: func(c challenged) string { return string(c.Document) }},
}

func (c attestCommands) attestChallenge() *cobra.Command {
	var attestor, task, show string
	cmd := &cobra.Command{
		Use: "challenge", Short: "Request an attestation challenge, as a sandbox", Args: cobra.NoArgs,
		Long: `Request an attestation challenge, as a sandbox, and print it. The answer to it is
valid for one minute and for one key: the key file --key, which is created if it does
not exist. ebb token --key FILE --task TASK --evidence ANSWER enrols with that key.`,
	}
	cmd.Flags().StringVar(&attestor, "attestor", "", "attestor that will judge the evidence; default: the attestor of the task")
	cmd.Flags().StringVar(&task, "task", c.env("EBB_TASK_ID"), "the task (EBB_TASK_ID)")
	cmd.Flags().StringVar(&show, "show", "", "`file` with the input that the attestor needs for a challenge (see its documentation), - = standard input")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		key, err := c.ownKey()
		if err != nil {
			return err
		}
		s, err := tokenCommands(c).newSandbox(key)
		if err != nil {
			return err
		}
		var shown string
		if show != "" {
			if shown, err = c.input(show, attest.MaxDocument); err != nil {
				return err
			}
		}
		got, err := s.Challenge(cmd.Context(), task, attestor, shown)
		if err != nil {
			return err
		}
		jkt, err := jose.Thumbprint(key.Key.Public())
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, challengedColumns, challenged{Nonce: got.Nonce, Document: got.Document, ExpiresAt: got.ExpiresAt, JKT: jkt})
	})
	return c.output(c.sandboxed(cmd))
}

// ownKey reads the sandbox's key file, and creates it if it does not exist.
func (c attestCommands) ownKey() (keyfile.File, error) {
	if c.keyFile == "" {
		return keyfile.File{}, usage("a sandbox needs a key file", "name it with --key or EBB_KEY_FILE; it is created if it does not exist")
	}
	f, err := keyfile.Read(c.keyFile)
	switch {
	case err == nil:
		return f, nil
	case !errors.Is(err, fs.ErrNotExist):
		return f, usage(err.Error(), "name the sandbox's own key file")
	}
	if f.Key, err = client.NewKey(jose.ES256); err != nil {
		return f, err
	}
	if err := keyfile.Write(c.keyFile, f); err != nil {
		return f, fail(err.Error(), "choose a --key in a directory that this user can write to")
	}
	return f, nil
}
