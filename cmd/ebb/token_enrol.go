package main

import (
	"cmp"
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/web/client"
)

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
		return nil, usage(err.Error(), "check --url and --key")
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
