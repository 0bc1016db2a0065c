package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

var secretColumns = []out.Column[wire.StoredSecret]{
	{Name: "name", Cell: func(s wire.StoredSecret) string { return s.Name }},
	{Name: "changed_at", Cell: func(s wire.StoredSecret) string { return out.Time(s.ChangedAt) }, Form: out.When},
}

func newSecrets(c *cli) *cobra.Command {
	return c.group("secrets", "Store refresh tokens and keys of providers, encrypted", operatorCommands{c}.secretsList(), operatorCommands{c}.secretsPut(),
		onOne(c, "remove SECRET", "Delete a secret", secretColumns, func(o *client.Operator) action[wire.StoredSecret] { return o.Secrets.Remove }),
	)
}

func (c operatorCommands) secretsList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List secrets by name, never by value", Args: cobra.NoArgs}
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		l, err := o.Secrets.List(cmd.Context())
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, secretColumns, l.Items)
	})
	return c.output(c.remote(cmd))
}

func (c operatorCommands) secretsPut() *cobra.Command {
	cmd := &cobra.Command{
		Use: "put SECRET", Short: "Store standard input under a name",
		Long: "Store standard input under a name, and replace an earlier value. One newline at its end is removed.\n" +
			"The value is never an argument, because arguments are in the shell's history and in the list of processes.",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		v, err := secretFrom(cmd.InOrStdin())
		if err != nil {
			return err
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		s, err := o.Secrets.Put(cmd.Context(), args[0], v)
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, secretColumns, s)
	})
	return c.output(c.remote(cmd))
}

// maxSecret is the broker's limit, in bytes.
const maxSecret = 64 << 10

// secretFrom reads a secret. A terminal is refused, because it would display
// the input.
func secretFrom(r io.Reader) (secret.Secret, error) {
	if terminal(r) {
		return secret.Secret{}, usage("standard input is a terminal, which would display the secret", "write ebb secrets put NAME < FILE")
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxSecret+2))
	if err != nil {
		return secret.Secret{}, fmt.Errorf("read standard input: %w", err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if text == "" || len(text) > maxSecret {
		return secret.Secret{}, usage("standard input must have 1 to 65536 bytes", "write ebb secrets put NAME < FILE")
	}
	return secret.New(text), nil
}
