package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/broker/provider"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

var secretColumns = []out.Column[broker.StoredSecret]{
	{Name: "name", Cell: func(s broker.StoredSecret) string { return s.Name }},
	{Name: "changed_at", Cell: func(s broker.StoredSecret) string { return out.Time(s.ChangedAt) }},
}

func newSecrets(c *cli) *cobra.Command {
	return c.group("secrets", "Keep refresh tokens and keys that providers need, sealed", c.secretsList(), c.secretsPut(),
		onOne(c, "remove NAME", "Forget a secret", secretColumns, (*client.Operator).RemoveSecret),
	)
}

func (c *cli) secretsList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List secrets by name, never by value", Args: cobra.NoArgs}
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		l, err := o.Secrets(cmd.Context())
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, secretColumns, l.Items)
	})
	return c.output(c.remote(cmd))
}

func (c *cli) secretsPut() *cobra.Command {
	cmd := &cobra.Command{
		Use: "put NAME < FILE", Short: "Keep what comes on standard input under a name",
		Long: "Keep what comes on standard input under a name, in place of what was there. One newline at its end is not part of it.\n" +
			"A value is never an argument: those stand in the shell's history and in the list of processes.",
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
		s, err := o.PutSecret(cmd.Context(), args[0], v)
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, secretColumns, s)
	})
	return c.output(c.remote(cmd))
}

// maxSecret is what the broker takes.
const maxSecret = 64 << 10

// secretFrom reads a secret. A terminal is refused: it would show what is typed.
func secretFrom(r io.Reader) (provider.Secret, error) {
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return provider.Secret{}, usage("the secret is read from standard input, and that is a terminal", "write ebb secrets put NAME < FILE")
		}
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxSecret+2))
	if err != nil {
		return provider.Secret{}, fmt.Errorf("reading standard input: %w", err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if text == "" || len(text) > maxSecret {
		return provider.Secret{}, usage("standard input must hold 1 to 65536 bytes", "write ebb secrets put NAME < FILE")
	}
	return provider.NewSecret(text), nil
}
