package main

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/contexts"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

// contextCommands holds ebb login and the sub-commands of ebb context.
type contextCommands struct{ *cli }

// contextLine is a context in the output of commands.
type contextLine struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	contexts.Context
}

var contextColumns = []out.Column[contextLine]{
	{Name: "current", Cell: func(l contextLine) string { return map[bool]string{true: "*"}[l.Current] }},
	{Name: "name", Cell: func(l contextLine) string { return l.Name }},
	{Name: "url", Cell: func(l contextLine) string { return l.URL }},
	{Name: "client_id", Cell: func(l contextLine) string { return l.ClientID }},
	{Name: "key_file", Cell: func(l contextLine) string { return l.KeyFile }},
	{Name: "ca_file", Cell: func(l contextLine) string { return l.CAFile }},
}

func newContext(c *cli) *cobra.Command {
	return c.group("context", "List and choose the ebbs that commands call", contextCommands{c}.contextList(),
		contextCommands{c}.contextCommand("use CONTEXT", "Make a context the current one; local = the ebb of this user on this machine", func(f *contexts.File, name string) {
			f.Current = name
		}),
		contextCommands{c}.contextShow(),
		contextCommands{c}.contextCommand("remove CONTEXT", "Remove a context; its key file stays", func(f *contexts.File, name string) {
			delete(f.Contexts, name)
			if f.Current == name {
				f.Current = ""
			}
		}))
}

// contexts reads the file of contexts.
func (c *cli) contexts() (contexts.File, error) {
	dir := contexts.Dir(c.env)
	f, err := contexts.Read(dir)
	if err != nil {
		return f, usage("the contexts cannot be used: "+err.Error(), "check the file, make it yours alone (chmod 700 "+dir+", chmod 600 "+filepath.Join(dir, "*")+"), or remove it and run `ebb login` again")
	}
	return f, nil
}

// named returns a context. Local is the zero Context.
func (c contextCommands) named(f contexts.File, name string) (contexts.Context, error) {
	x, known := f.Contexts[name]
	if !known && name != contexts.Local {
		names := append(slices.Sorted(maps.Keys(f.Contexts)), contexts.Local)
		return x, usage(fmt.Sprintf("no context is named %q; contexts: %s", name, strings.Join(names, ", ")), "`ebb login URL` adds one")
	}
	return x, nil
}

func (c contextCommands) contextList() *cobra.Command {
	return c.output(&cobra.Command{
		Use: "list", Short: "List the contexts", Args: cobra.NoArgs,
		RunE: c.do(func(*cobra.Command, []string) error {
			f, err := c.contexts()
			if err != nil {
				return err
			}
			current := cmp.Or(f.Current, contexts.Local)
			lines := []contextLine{{Name: contexts.Local, Current: current == contexts.Local}}
			for _, name := range slices.Sorted(maps.Keys(f.Contexts)) {
				lines = append(lines, contextLine{name, name == current, f.Contexts[name]})
			}
			return out.List(c.stdout, c.format, contextColumns, lines)
		}),
	})
}

func (c contextCommands) contextShow() *cobra.Command {
	return c.output(&cobra.Command{
		Use: "show [CONTEXT]", Short: "Show one context, by default the current one", Args: cobra.MaximumNArgs(1),
		RunE: c.do(func(_ *cobra.Command, args []string) error {
			f, err := c.contexts()
			if err != nil {
				return err
			}
			name := cmp.Or(strings.Join(args, ""), f.Current, contexts.Local)
			x, err := c.named(f, name)
			if err != nil {
				return err
			}
			return out.One(c.stdout, c.format, contextColumns, contextLine{name, name == cmp.Or(f.Current, contexts.Local), x})
		}),
	})
}

// contextCommand makes a command that changes the file with the name of a
// context.
func (c contextCommands) contextCommand(use, short string, change func(*contexts.File, string)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: c.do(func(_ *cobra.Command, args []string) error {
			f, err := c.contexts()
			if err != nil {
				return err
			}
			if _, err := c.named(f, args[0]); err != nil {
				return err
			}
			change(&f, args[0])
			return c.save(f)
		}),
	}
}

func (c contextCommands) save(f contexts.File) error {
	if f.Current == contexts.Local {
		f.Current = ""
	}
	if err := contexts.Write(contexts.Dir(c.env), f); err != nil {
		return fail(err.Error(), "make the directory of the contexts writable for this user, or name another with XDG_CONFIG_HOME")
	}
	return nil
}

// useContext sets the server and the identity that the command line and the
// environment leave open. A URL or socket that they name excludes contexts: no
// key or CA of one ebb is combined with the address of another.
func (c *cli) useContext(cmd *cobra.Command) error {
	if c.url != "" || c.socket != "" {
		if c.context != "" {
			return usage("--context "+c.context+" and --url or --socket (EBB_URL, EBB_SOCKET) both name an ebb", "remove one of them")
		}
		return nil
	}
	f, err := c.contexts()
	if err != nil {
		return err
	}
	x, err := contextCommands{c}.named(f, cmp.Or(c.context, c.env("EBB_CONTEXT"), f.Current, contexts.Local))
	if err != nil {
		return err
	}
	c.url, c.caFile = x.URL, cmp.Or(c.caFile, x.CAFile)
	if cmd.Flags().Lookup("client-id") != nil && c.keyFile == "" { // a sandbox has a key of its own
		c.keyFile, c.clientID = x.KeyFile, cmp.Or(c.clientID, x.ClientID)
	}
	return nil
}
