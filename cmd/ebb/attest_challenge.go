package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
)

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
	{Name: "expires_at", Cell: func(c challenged) string { return out.Time(c.ExpiresAt) }},
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
	return c.output(c.boxed(cmd))
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
