package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"ebb/attest"
	"ebb/attest/jose"
	"ebb/cmd/ebb/internal/keyfile"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

// challenged is what `ebb attest challenge` prints.
type challenged struct {
	Nonce     string          `json:"nonce"`
	Document  json.RawMessage `json:"document,omitempty"`
	ExpiresAt time.Time       `json:"expires_at"`
	JKT       string          `json:"jkt"` // thumbprint of the key that the answer is for
}

var challengedColumns = []out.Column[challenged]{
	{Name: "nonce", Cell: func(c challenged) string { return c.Nonce }},
	{Name: "jkt", Cell: func(c challenged) string { return c.JKT }},
	{Name: "expires_at", Cell: func(c challenged) string { return out.Time(c.ExpiresAt) }},
	{Name: "document", Cell: func(c challenged) string { return string(c.Document) }},
}

func (c *cli) attestChallenge() *cobra.Command {
	var attestor, task, show string
	cmd := &cobra.Command{
		Use: "challenge", Short: "Ask for what evidence must answer, as a sandbox", Args: cobra.NoArgs,
		Long: `Ask for what evidence must answer, as a sandbox, and print it. The answer is good
for a minute and for one key: the key file --key is made if there is none, and
ebb token --key FILE --task TASK --evidence ANSWER enrols with the same.`,
	}
	cmd.Flags().StringVar(&attestor, "attestor", "", "who will judge the evidence; default: the one the task was opened with")
	cmd.Flags().StringVar(&task, "task", c.env("EBB_TASK_ID"), "the task (EBB_TASK_ID)")
	cmd.Flags().StringVar(&show, "show", "", "`file` with what the attestor's page says is shown first, - = standard input")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		key, err := c.ownKey()
		if err != nil {
			return err
		}
		s, err := c.newSandbox(key)
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
	return c.output(c.boxed(cmd))
}

// ownKey is the sandbox's key file, made if there is none.
func (c *cli) ownKey() (keyfile.File, error) {
	if c.keyFile == "" {
		return keyfile.File{}, usage("a sandbox needs a key file", "name it with --key or EBB_KEY_FILE; it is made if there is none")
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
