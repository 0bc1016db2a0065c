package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ebb-broker/ebb/scopes/nearest"
)

// frame adds the parts that all commands share: version,
// help, help topics, completion, examples and suggestions.
func (c *cli) frame(root *cobra.Command) {
	v := thisVersion()
	root.Version = strings.TrimSpace(v.Version + " " + v.Revision)
	root.SetVersionTemplate("ebb {{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	root.SetHelpCommand(c.newHelp(root))
	root.SetCompletionCommandGroupID("client")
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, t := range topics {
		root.AddCommand(&cobra.Command{Use: t.name, Short: t.short, Long: t.text})
	}
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		// Cobra prints help before it validates arguments: without this, help for
		// an unknown command would be that of its parent.
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			c.unhelped = cmd.ValidateArgs(words)
			return
		}
		show(cmd, args)
	})
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 100"))
	walkCommands(root, func(cmd *cobra.Command) {
		cmd.Example = examples[cmd.CommandPath()]
		c.complete(cmd)
	})
}

// walkCommands calls visit for a command and all commands below it.
func walkCommands(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walkCommands(sub, visit)
	}
}

// settle applies the environment and the context to the flags of a command that
// the command line does not set.
func (c *cli) settle(cmd *cobra.Command, _ []string) error {
	if o, format := cmd.Flags().Lookup("output"), c.env("EBB_OUTPUT"); o != nil && !o.Changed && format != "" {
		if err := o.Value.Set(format); err != nil {
			return usage(fmt.Sprintf("EBB_OUTPUT %q is not an output format of this command: %s", format, err), suggestion(format, o.Value)+"correct or unset EBB_OUTPUT")
		}
	}
	if cmd.Flags().Lookup("context") == nil {
		return nil
	}
	return c.useContext(cmd)
}

func (c *cli) newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND|TOPIC]", Short: "Help about a command or a topic", GroupID: "client",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (words []cobra.Completion, _ cobra.ShellCompDirective) {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, sub := range cmd.Commands() {
				if !sub.Hidden {
					words = append(words, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: c.do(func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if err := onlyCommands(cmd, rest); err != nil {
				return err
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		}),
	}
}

// misused adds the next step to an error of a command line whose command was not
// started.
func misused(cmd *cobra.Command, err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	path, text := cmd.CommandPath(), err.Error()
	if args := cmd.Flags().Args(); len(args) > 0 && strings.HasPrefix(text, "unknown command") {
		text = fmt.Sprintf("it takes no arguments, and got %q", args[0])
	}
	return usage("`"+path+"`: "+text, "write `"+cmd.UseLine()+"`; see `"+path+" --help`")
}

// remedies are the next steps for values of flags, by the type of the flag.
var remedies = map[string]string{
	"duration": "write it like 90s, 15m or 2h; ", "int": "write a whole number; ", "float64": "write a number; ", "uint64": "write a whole number; ",
	"stringToString": "write name=value; ", "bool": "write true or false; ",
}

// flagError adds the next step to an error of a flag.
func flagError(cmd *cobra.Command, err error) error {
	help := "see `" + cmd.CommandPath() + " --help`"
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		// The flag may belong to the command that a wrong word before it meant.
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			return onlyCommands(cmd, words)
		}
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if name := nearest.Of(unknown.GetSpecifiedName(), known); name != "" {
			help = "did you mean --" + name + "? " + help
		}
		return usage(fmt.Sprintf("`%s`: %s", cmd.CommandPath(), err), help)
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := bad.GetFlag()
		return usage(fmt.Sprintf("--%s %q: %s", f.Name, bad.GetValue(), bad.Unwrap()), suggestion(bad.GetValue(), f.Value)+remedies[f.Value.Type()]+help)
	}
	return usage(err.Error(), help)
}

// closed is a flag value with a closed list of values.
type closed interface{ Values() []string }

// suggestion names the value of a closed list that is nearest to text.
func suggestion(text string, v pflag.Value) string {
	if list, ok := v.(closed); ok {
		if name := nearest.Of(text, list.Values()); name != "" {
			return "did you mean " + name + "? "
		}
	}
	return ""
}

// topics are the help topics that are no commands.
var topics = []struct{ name, short, text string }{
	{"environment", "Environment variables", `Flags take precedence over variables, and variables over the context.

  EBB_URL         public URL of ebb (--url)
  EBB_SOCKET      path of the Unix socket to connect to (--socket)
  EBB_CONTEXT     name of an ebb that 'ebb login' has stored (--context); EBB_URL and
                  EBB_SOCKET take precedence over it
  EBB_KEY_FILE    private key file (--key)
  EBB_CLIENT_ID   principal to act as (--client-id)
  EBB_CA_FILE     PEM file of the CA of ebb's certificate (--ca-file)
  EBB_OUTPUT      output format, if -o is not given
  EBB_CONFIG      configuration file of the server (--config)
  EBB_DATA_DIR    data directory of the ebb on this machine, with its local keys;
                  default: ebb in XDG_DATA_HOME or in ~/.local/share

A sandbox also has:

  EBB_TICKET      enrolment ticket (ebb token --ticket)
  EBB_TASK_ID     its task (--task)
  EBB_ASK         socket of the runner, set by 'ebb run'
  EBB_RUN_STDERR  device and inode of the standard error of CMD, set by 'ebb run': the
                  runner prints waiting requests there, so commands do not repeat them

Contexts are in ebb/contexts.json in XDG_CONFIG_HOME or in ~/.config.

Every key of the server's configuration has a variable too: redis.addrs is
EBB_REDIS_ADDRS. 'ebb serve --help' lists them. HTTPS_PROXY, HTTP_PROXY
and NO_PROXY name HTTP proxies.`},
	{"exit-codes", "Exit codes of ebb", `  0    done
  1    failed
  2    wrong usage or configuration
  3    refused: denied, forbidden, not authenticated
  4    pending, or not decided in time
  5    unavailable: ebb or a service that it needs cannot be reached

'ebb run' exits with the code of its command, or with 128 plus the number of the signal
that ended the command. Two codes are those of a shell:

  126  the command exists and cannot be executed
  127  the command does not exist

If 'ebb run' fails before the command starts, it exits with a code of the first list.
Every error names its next step in a line that begins with ->.`},
}
