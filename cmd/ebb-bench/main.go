package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

func main() {
	if err := command.NoCore(); err != nil {
		fmt.Fprintf(os.Stderr, "ebb-bench: core files cannot be disabled, and one could contain credentials: %v\n  -> run ebb-bench with ulimit -c 0\n", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c := &cli{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), format: out.Table}
	code := c.run(ctx, os.Args[1:])
	stop()
	os.Exit(int(code))
}

// cli is the context of every command: the streams and environment of the
// process, and the flags that several commands share.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string

	ebb        string // --ebb
	configFile string
	format     out.Format
	url        string
	clientID   string
	keyFile    string
	caFile     string

	started bool // a command's own code ran: the arguments were valid
}

// run runs one command line and returns the exit code.
func (c *cli) run(ctx context.Context, args []string) command.Exit {
	root := newRoot(c)
	root.SetArgs(args)
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		return command.Report(c.stderr, "ebb-bench", err, c.started)
	}
	return command.ExitOK
}

// env returns an environment variable, or "" if it is not set.
func (c *cli) env(name string) string {
	value := ""
	for _, line := range c.environ {
		if rest, ok := strings.CutPrefix(line, name+"="); ok {
			value = rest
		}
	}
	return value
}

// do wraps f as a cobra RunE that marks the command as started.
func (c *cli) do(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c.started = true
		return f(cmd, args)
	}
}

// output adds -o to a command.
func (c *cli) output(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().VarP(&c.format, "output", "o", "output format")
	return cmd
}

// remote adds the flags that name a running ebb and a principal.
func (c *cli) remote(cmd *cobra.Command) *cobra.Command {
	f := cmd.Flags()
	f.StringVar(&c.url, "url", c.env("EBB_URL"), "public URL of a running ebb (EBB_URL); default: start one")
	f.StringVar(&c.clientID, "client-id", c.env("EBB_CLIENT_ID"), "principal to act as (EBB_CLIENT_ID); default: the one in the key file")
	f.StringVar(&c.keyFile, "key", c.env("EBB_KEY_FILE"), "private key `file` of a runner (EBB_KEY_FILE); default: the local key in the data directory")
	f.StringVar(&c.caFile, "ca-file", c.env("EBB_CA_FILE"), "PEM `file` of the CA of ebb's certificate (EBB_CA_FILE)")
	return cmd
}

// dataDir is the data directory of the ebb on this machine, from --config if it
// is set.
func (c *cli) dataDir() string {
	if c.configFile != "" {
		if cfg, err := config.Load(config.Source{File: c.configFile, Environ: c.environ}); err == nil {
			return cfg.DataDir
		}
	}
	return config.DataDir(c.environ)
}

// ebbPath returns the path of the ebb to measure: --ebb, the file ebb in the
// directory of this program, or ebb on PATH.
func (c *cli) ebbPath() (string, error) {
	if c.ebb != "" {
		path, err := exec.LookPath(c.ebb)
		if err != nil {
			return "", command.Usage("--ebb: "+err.Error(), "name the ebb program; `go build ./cmd/ebb` makes one")
		}
		return filepath.Abs(path)
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "ebb")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("ebb")
	if err != nil {
		return "", command.Usage("there is no ebb beside this program or on PATH", "name the ebb program with --ebb; `go build ./cmd/ebb` makes one")
	}
	return filepath.Abs(path)
}

// printf writes to standard output.
func (c *cli) printf(format string, args ...any) { fmt.Fprintf(c.stdout, format, args...) }

// sayf writes to standard error: messages for people, kept out of pipes.
func (c *cli) sayf(format string, args ...any) { fmt.Fprintf(c.stderr, format, args...) }
