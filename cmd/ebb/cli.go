package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
)

// defaultURL is the default address of `ebb serve`.
const defaultURL = "http://127.0.0.1:8420"

// cli is the context of every command: the streams and environment of the
// process, and the flags that several commands share.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string

	configFile string
	format     out.Format
	context    string // --context; "" = EBB_CONTEXT or the current one
	url        string
	socket     string
	clientID   string
	keyFile    string
	caFile     string

	started  bool  // a command's own code ran: the arguments were valid
	status   exit  // exit code of a command that returned no error
	unhelped error // help was requested for an unknown command
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

func (c *cli) help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// group makes a command that only has sub-commands. Unknown arguments are
// refused.
func (c *cli) group(use, short string, sub ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: onlyCommands, RunE: c.help}
	cmd.AddCommand(sub...)
	return cmd
}

// onlyCommands refuses arguments that name no command, and suggests one.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	next := "`" + cmd.CommandPath() + " --help` lists the commands"
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		next = "did you mean `" + cmd.CommandPath() + " " + strings.Join(near, "` or `"+cmd.CommandPath()+" ") + "`? " + next
	}
	return usage(fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath()), next)
}

// output adds -o to a command.
func (c *cli) output(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().VarP(&c.format, "output", "o", "output format (EBB_OUTPUT)")
	return cmd
}

// remote adds the flags of a command that calls a server as a principal.
func (c *cli) remote(cmd *cobra.Command) *cobra.Command {
	c.server(cmd)
	return c.principal(cmd)
}

// sandboxed is remote for a command of a sandbox. A sandbox authenticates with its
// key file alone, so there is no --client-id.
func (c *cli) sandboxed(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&c.keyFile, "key", c.env("EBB_KEY_FILE"), "the sandbox's own key `file` (EBB_KEY_FILE); enrolment creates it")
	return c.server(cmd)
}

// server adds the flags that name the ebb to call.
func (c *cli) server(cmd *cobra.Command) *cobra.Command {
	f := cmd.Flags()
	f.StringVar(&c.context, "context", "", "`name` of an ebb that ebb login has stored (EBB_CONTEXT); default: the current one")
	f.StringVar(&c.url, "url", c.env("EBB_URL"), "public URL of ebb (EBB_URL); default: that of the context, or the ebb of this user on this machine")
	f.StringVar(&c.socket, "socket", c.env("EBB_SOCKET"), "`path` of the Unix socket to connect to (EBB_SOCKET); --url is then only the expected issuer")
	return c.trust(cmd)
}

// principal adds the flags that name the principal to act as.
func (c *cli) principal(cmd *cobra.Command) *cobra.Command {
	f := cmd.Flags()
	f.StringVar(&c.clientID, "client-id", c.env("EBB_CLIENT_ID"), "principal to act as (EBB_CLIENT_ID); default: the one in the key file")
	f.StringVar(&c.keyFile, "key", c.env("EBB_KEY_FILE"), "private key `file` (EBB_KEY_FILE); default: that of the context, or the local key in the data directory")
	return cmd
}

// trust adds the flag that names the CA of ebb's certificate.
func (c *cli) trust(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&c.caFile, "ca-file", c.env("EBB_CA_FILE"), "PEM `file` of the CA of ebb's certificate (EBB_CA_FILE)")
	return cmd
}

// Files that `ebb serve` creates in its data directory.
const (
	operatorKey = config.OperatorKey
	approverKey = "approver.key"
	resourceKey = "resource-server.key"
	urlFile     = config.URLFile
)

// peer returns the address of ebb. Without --url and --socket that is the
// running ebb of this user on this machine. If none is running peer returns an
// error and no default: another process may listen on the port by now, and
// would receive the ticket, evidence or assertion that is sent there.
func (c *cli) peer() (client.Config, error) {
	url := c.url
	if url == "" {
		var running bool
		if url, running = runningURL(c.dataDir()); !running && c.socket == "" {
			return client.Config{}, &failure{Code: exitUnavailable, Text: "no ebb of this user is running on this machine", Next: "start `ebb serve`, or name one with --url"}
		}
	}
	hc, err := c.httpClient()
	return client.Config{Issuer: cmp.Or(url, defaultURL), Socket: c.socket, HTTP: hc}, err
}

// httpClient returns a client that trusts the system's roots, or only the
// certificates of --ca-file if it is set.
func (c *cli) httpClient() (*http.Client, error) {
	return command.HTTPClient(c.caFile)
}

// operator returns a client of the API that acts as a principal: the one named
// by the flags, or the local principal whose key file is named local.
func (c *cli) operator(local string) (*client.Operator, error) {
	f, id, err := c.identity(local)
	if err != nil {
		return nil, err
	}
	peer, err := c.peer()
	if err != nil {
		return nil, err
	}
	o, err := client.NewOperator(client.OperatorConfig{Config: peer, ClientID: id, Key: f.Key})
	if err != nil {
		return nil, usage("the ebb at "+shownURL(peer.Issuer)+" cannot be called: "+err.Error(), "check --url and --key")
	}
	return o, nil
}

// identity returns the key and the id of the principal that the flags name, or the local one whose key file is named
// local.
func (c *cli) identity(local string) (keyfile.File, string, error) {
	path := c.keyFile
	if path == "" {
		path = keyCommands{c}.keyPath(local)
	}
	f, err := keyfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) && c.keyFile == "" {
		if _, running := runningURL(c.dataDir()); running {
			return f, "", usage("there is no local key "+path+": the running ebb has configured principals or providers, which replace the local ones",
				"name your key with --key and --client-id; `ebb config check --config FILE` prints the lines that keep the local principals")
		}
		return f, "", usage("there is no local key "+path, "start `ebb serve` on this machine, or name your key with --key and --client-id")
	}
	if err != nil {
		return f, "", usage(err.Error(), "name a key file with --key; `ebb keys new` makes one")
	}
	id := cmp.Or(c.clientID, f.ClientID)
	if id == "" {
		return f, "", usage("the key file "+path+" does not name its principal", "name the principal with --client-id")
	}
	return f, id, nil
}

// shownURL returns the scheme and host of a URL for a message: a user, path or
// query that does not belong there may contain a secret.
func shownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "--url"
	}
	return out.Line(u.Scheme + "://" + u.Host)
}

// loadConfig reads the server's configuration.
func (c *cli) loadConfig() (config.Config, error) {
	return config.Load(config.Source{File: c.configFile, Environ: c.environ})
}

// dataDir is the data directory of the ebb on this machine. If --config is set
// it is taken from that file, so that all commands find the same keys.
func (c *cli) dataDir() string {
	if c.configFile != "" {
		if cfg, err := c.loadConfig(); err == nil {
			return cfg.DataDir
		}
	}
	return config.DataDir(c.environ)
}

// printf writes to standard output.
func (c *cli) printf(format string, args ...any) { fmt.Fprintf(c.stdout, format, args...) }

// sayf writes to standard error: messages for people, kept out of pipes.
func (c *cli) sayf(format string, args ...any) { fmt.Fprintf(c.stderr, format, args...) }

// runningURL is the public URL of the ebb that uses a data directory. The url
// file is trusted only while the directory is locked, so by a running process
// of this user: after it has ended another program may listen on its port.
func runningURL(dir string) (url string, running bool) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return "", false
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return "", false
	}
	text, err := os.ReadFile(filepath.Join(dir, urlFile))
	return strings.TrimSpace(string(text)), err == nil
}

// Short names of package command for the errors and exit codes of this package's
// commands.
type (
	exit    = command.Exit
	failure = command.Failure
)

const (
	exitOK          = command.ExitOK
	exitFailure     = command.ExitFailure
	exitUsage       = command.ExitUsage
	exitRefused     = command.ExitRefused
	exitPending     = command.ExitPending
	exitUnavailable = command.ExitUnavailable
)

// usage is an error that the user's input caused.
func usage(text, next string) error { return command.Usage(text, next) }

// fail is every other error that the command detects itself.
func fail(text, next string) error { return command.Fail(text, next) }

// exitOf maps an error to an exit code.
func exitOf(err error) exit { return command.ExitOf(err) }

// explain formats an error for a person.
func explain(err error) string { return command.Explain(err) }

// nextStep returns the next step for err, "" if the error already names it.
func nextStep(err error, code exit) string { return command.NextStep("ebb", err, code) }

// parseScopes parses the values of --scope. Each may contain several scopes.
func parseScopes(list []string) (scopes.Set, error) {
	set, err := scopes.ParseSet(strings.Join(list, " "))
	if err != nil {
		return scopes.Set{}, usage(err.Error(), "write provider:resource:action, such as orders:eu/42:read")
	}
	return set, nil
}

// openFile opens a file that the user named.
func openFile(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usage(err.Error(), "name a readable file")
	}
	return f, nil
}

// maxInput is the maximum size in bytes of a token, query or key.
const maxInput = 64 << 10

// input reads a short text from the named file, or from standard input if name
// is -, and trims white space.
func (c *cli) input(name string, limit int64) (string, error) {
	var in io.Reader = c.stdin
	if name != "-" {
		f, err := openFile(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return "", fail(err.Error(), "name a readable file")
	}
	if int64(len(text)) > limit {
		return "", usage(fmt.Sprintf("the input is larger than %d KiB", limit>>10), "name the right file")
	}
	return strings.TrimSpace(string(text)), nil
}

// onOne makes a command that performs one action on a task or credential, named
// by its argument, and prints the result.
func onOne[T any](c *cli, use, short string, columns []out.Column[T], do func(*client.Operator) action[T]) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(1)}
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		answer, err := do(o)(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, columns, answer)
	})
	return c.output(c.remote(cmd))
}

// onOneFor is onOne with a --reason.
func onOneFor[T any](c *cli, use, short string, columns []out.Column[T], do func(*client.Operator) actionFor[T]) *cobra.Command {
	reason := ""
	cmd := onOne(c, use, short, columns, func(o *client.Operator) action[T] {
		return func(ctx context.Context, id string) (T, error) { return do(o)(ctx, id, reason) }
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why; written to the audit log")
	return cmd
}

// action acts on the task, credential or other object with an id.
type action[T any] func(ctx context.Context, id string) (T, error)

// actionFor is an action with a reason.
type actionFor[T any] func(ctx context.Context, id, reason string) (T, error)
