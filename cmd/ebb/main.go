package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	_ "github.com/ebb-broker/ebb/cmd/ebb/internal/collector" // sets GOGC
	"github.com/ebb-broker/ebb/cmd/ebb/internal/shim"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

func main() {
	if err := command.NoCore(); err != nil {
		fmt.Fprintf(os.Stderr, "ebb: core files cannot be disabled, and one could contain credentials: %v\n  -> run ebb with ulimit -c 0\n", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c := &cli{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), format: out.Table}
	code := c.run(ctx, os.Args[1:])
	stop()
	os.Exit(int(code))
}

// run runs one command line and returns the exit code.
func (c *cli) run(ctx context.Context, args []string) exit {
	root := newRoot(c)
	root.SetArgs(args)
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = c.unhelped
	}
	if err == nil {
		return c.status
	}
	if !c.started {
		err = misused(cmd, err)
	}
	return command.Report(c.stderr, "ebb", err, c.started)
}

// commandGroups are the commands in the order of `ebb --help`.
var commandGroups = []struct {
	id, title string
	commands  []func(*cli) *cobra.Command
}{
	{"run", "Run agents and request credentials:", []func(*cli) *cobra.Command{newRun, newTask, newToken, newCredential, newMCP, newDelegate, newHold, newDemo, newExample}},
	{"decide", "Decide requests:", []func(*cli) *cobra.Command{newRequests, newConsole, newBreakGlass}},
	{"audit", "See what happened:", []func(*cli) *cobra.Command{newLeases, newAudit, newTranscripts}},
	{"policy", "Write policies:", []func(*cli) *cobra.Command{newPolicy, newAttest}},
	{"operate", "Operate ebb:", []func(*cli) *cobra.Command{newServe, newConfig, newKeys, newSecrets, newProviders, newNotify, newMigrate, newDoctor, newHealth, newEgress}},
	{"client", "Set up this client:", []func(*cli) *cobra.Command{newLogin, newContext, newVersion}},
}

// aliases are the other names of commands: the singular of a plural name, and the
// reverse.
var aliases = map[string]string{
	"task": "tasks", "requests": "request", "leases": "lease", "transcripts": "transcript", "providers": "provider", "secrets": "secret", "keys": "key", "context": "contexts", "policy": "policies",
}

func newRoot(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:   "ebb",
		Short: "Just-in-time credentials for sandboxed agents: issued per use, revoked when the task ends",
		Long: `ebb is a just-in-time credential broker for sandboxed agents.

  ebb demo                    a guided tour with embedded services, in seconds
  ebb serve                   run the broker; no configuration is needed on one machine
  ebb run -- CMD              open a task, run CMD, complete the task when it ends`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Args:              onlyCommands,
		RunE:              c.help,
		PersistentPreRunE: c.settle,
	}
	root.PersistentFlags().StringVar(&c.configFile, "config", c.env("EBB_CONFIG"), "configuration `file` of the server (EBB_CONFIG)")
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, add := range g.commands {
			cmd := add(c)
			cmd.GroupID = g.id
			if alias := aliases[cmd.Name()]; alias != "" {
				cmd.Aliases = []string{alias}
			}
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newShim(c))
	c.frame(root)
	return root
}

// versionInfo describes this binary.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisVersion reads the build information of the binary.
func thisVersion() versionInfo {
	v := versionInfo{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func newVersion(c *cli) *cobra.Command {
	return c.output(&cobra.Command{
		Use: "version", Short: "Print the version of this binary", Args: cobra.NoArgs,
		RunE: c.do(func(*cobra.Command, []string) error {
			return out.One(c.stdout, c.format, []out.Column[versionInfo]{
				{Name: "version", Cell: func(v versionInfo) string { return v.Version }},
				{Name: "revision", Cell: func(v versionInfo) string { return v.Revision }},
				{Name: "go", Cell: func(v versionInfo) string { return v.Go }},
				{Name: "platform", Cell: func(v versionInfo) string { return v.Platform }},
			}, thisVersion())
		}),
	})
}

func newShim(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "shim", Short: "The first process of a sandbox, started by ebb run", Hidden: true, DisableFlagParsing: true,
		RunE: c.do(func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "--help" {
				return cmd.Help()
			}
			s, err := shim.Parse(args)
			if err != nil {
				return usage(err.Error(), "this command is started by `ebb run`")
			}
			code, err := shim.Run(s)
			c.status = exit(code)
			return err
		}),
	}
}
