package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/internal/config"
	"ebb/cmd/ebb/internal/keyfile"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

// defaultURL is where `ebb serve` listens when nobody says otherwise.
const defaultURL = "http://127.0.0.1:8420"

// cli is what every command works with: the process around it, and the flags
// that several commands share.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string

	configFile string
	format     out.Format
	url        string
	socket     string
	clientID   string
	keyFile    string
	caFile     string

	started  bool  // a command's own code ran: the words were right
	status   exit  // of a command that ended well and yet has something to say
	unhelped error // help was asked for on what is no command
}

// env is a variable of the environment, "" when it is not set.
func (c *cli) env(name string) string {
	value := ""
	for _, line := range c.environ {
		if rest, ok := strings.CutPrefix(line, name+"="); ok {
			value = rest
		}
	}
	return value
}

// do makes a cobra RunE of f.
func (c *cli) do(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c.started = true
		return f(cmd, args)
	}
}

func (c *cli) help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// group makes a command that only holds others. Unknown words are refused.
func (c *cli) group(use, short string, sub ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: c.help}
	cmd.AddCommand(sub...)
	return cmd
}

// output adds -o to a command.
func (c *cli) output(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().VarP(&c.format, "output", "o", "how to print")
	return cmd
}

// remote adds the flags of a command that talks to a server as a principal.
func (c *cli) remote(cmd *cobra.Command) *cobra.Command {
	f := cmd.Flags()
	f.StringVar(&c.url, "url", c.env("EBB_URL"), "public URL of ebb (EBB_URL); default: that of the ebb of this user on this machine")
	f.StringVar(&c.socket, "socket", c.env("EBB_SOCKET"), "unix socket to reach it by (EBB_SOCKET), a `path`; --url then only names it")
	f.StringVar(&c.clientID, "client-id", c.env("EBB_CLIENT_ID"), "principal to act as (EBB_CLIENT_ID); default: as the key file says")
	f.StringVar(&c.keyFile, "key", c.env("EBB_KEY_FILE"), "private key `file` (EBB_KEY_FILE); default: the local one in the data directory")
	f.StringVar(&c.caFile, "ca-file", c.env("EBB_CA_FILE"), "PEM `file` of the CA of ebb's certificate (EBB_CA_FILE)")
	return cmd
}

// boxed is remote for a command of a sandbox, which is nobody but its key file.
func (c *cli) boxed(cmd *cobra.Command) *cobra.Command {
	f := cmd.Flags()
	f.StringVar(&c.url, "url", c.env("EBB_URL"), "public URL of ebb (EBB_URL); default: that of the ebb of this user on this machine")
	f.StringVar(&c.socket, "socket", c.env("EBB_SOCKET"), "unix socket to reach it by (EBB_SOCKET), a `path`; --url then only names it")
	f.StringVar(&c.keyFile, "key", c.env("EBB_KEY_FILE"), "the sandbox's own key `file` (EBB_KEY_FILE); enrolling makes it")
	f.StringVar(&c.caFile, "ca-file", c.env("EBB_CA_FILE"), "PEM `file` of the CA of ebb's certificate (EBB_CA_FILE)")
	return cmd
}

// localKeys are the key files that `ebb serve` makes in its data directory.
const (
	operatorKey = "operator.key"
	approverKey = "approver.key"
	urlFile     = "url" // the public URL of the ebb that uses the directory
)

// peer says where ebb is. Who is told no place has the ebb of this user on this machine, and
// while none runs nobody: on the port where it was or would be, anybody may listen by now, and
// whatever is shown there, a ticket, evidence, an assertion, is theirs.
func (c *cli) peer() (client.Config, error) {
	url := c.url
	if url == "" {
		var running bool
		if url, running = runningURL(c.dataDir()); !running && c.socket == "" {
			return client.Config{}, &failure{exitUnavailable, "no ebb of this user is running on this machine", "start `ebb serve`, or name one with --url"}
		}
	}
	hc, err := c.httpClient()
	return client.Config{Issuer: cmp.Or(url, defaultURL), Socket: c.socket, HTTP: hc}, err
}

// httpClient trusts the system's roots and those of --ca-file.
func (c *cli) httpClient() (*http.Client, error) {
	tc, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = tc
	return &http.Client{Transport: t}, nil
}

func (c *cli) tlsConfig() (*tls.Config, error) {
	tc := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.caFile == "" {
		return tc, nil
	}
	pem, err := os.ReadFile(c.caFile)
	if err != nil {
		return nil, usage("--ca-file: "+err.Error(), "name a readable PEM file")
	}
	tc.RootCAs = x509.NewCertPool()
	if !tc.RootCAs.AppendCertsFromPEM(pem) {
		return nil, usage("--ca-file "+c.caFile+" holds no certificate", "name a PEM file with CERTIFICATE blocks")
	}
	return tc, nil
}

// operator is the API seen by a principal: the one that the flags name, else
// the local one whose key file is called local.
func (c *cli) operator(local string) (*client.Operator, error) {
	path := c.keyFile
	if path == "" {
		path = c.keyPath(local)
	}
	f, err := keyfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) && c.keyFile == "" {
		return nil, usage("there is no local key "+path, "start `ebb serve` on this machine, or name your key with --key and --client-id")
	}
	if err != nil {
		return nil, usage(err.Error(), "name a key file with --key; `ebb keys new` makes one")
	}
	id := cmp.Or(c.clientID, f.ClientID)
	if id == "" {
		return nil, usage("the key file "+path+" does not say whose it is", "name the principal with --client-id")
	}
	peer, err := c.peer()
	if err != nil {
		return nil, err
	}
	o, err := client.NewOperator(client.OperatorConfig{Config: peer, ClientID: id, Key: f.Key})
	if err != nil {
		return nil, usage(err.Error(), "check --url and --key")
	}
	return o, nil
}

// loadConfig reads the server's configuration.
func (c *cli) loadConfig() (config.Config, error) {
	return config.Load(config.Source{File: c.configFile, Environ: c.environ})
}

// checkConfig reads it and also asks every kind of attestor and provider what it
// thinks of its part: all problems at once.
func (c *cli) checkConfig() (config.Config, error) {
	cfg, err := c.loadConfig()
	ps, ok := errors.AsType[config.Problems](err)
	if err != nil && !ok {
		return cfg, err
	}
	more, err := kindProblems(cfg)
	if err != nil {
		return cfg, err
	}
	if ps = append(ps, more...); len(ps) > 0 {
		return cfg, ps
	}
	return cfg, nil
}

// dataDir is the data directory of the ebb on this machine: that of --config
// when it is given, so that all commands find the same keys.
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

// sayf writes to standard error: for people, never for pipes.
func (c *cli) sayf(format string, args ...any) { fmt.Fprintf(c.stderr, format, args...) }
