package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/demo"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/history"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/web/client"
)

// demoCommand implements ebb demo.
type demoCommand struct{ *cli }

func newDemo(c *cli) *cobra.Command {
	var console bool
	var listen string
	cmd := &cobra.Command{
		Use: "demo", Short: "A guided tour with embedded services, in seconds", Args: cobra.NoArgs,
		Long: "Start all services in this process on free loopback ports, and follow one task from\nthe enrolment of its sandbox until every credential is revoked. Every expectation is\nchecked; the exit code is 0 only if all hold. Nothing outside a temporary directory is written.",
		RunE: c.do(func(cmd *cobra.Command, _ []string) error {
			if console {
				return demoCommand{c}.demoConsole(cmd.Context(), listen)
			}
			return demoCommand{c}.demo(cmd.Context())
		}),
	}
	cmd.Flags().BoolVar(&console, "console", false, "instead, run a web console with the history of one working day")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "with --console: loopback address to listen on")
	cmd.AddCommand(&cobra.Command{
		Use: "sandbox", Short: "The sandbox of the tour", Args: cobra.NoArgs, Hidden: true,
		RunE: c.do(func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt) // the tour ends the sandbox by closing its input
			return demo.Sandbox(context.WithoutCancel(cmd.Context()), c.env("EBB_URL"), c.stdin, c.stdout)
		}),
	}, &cobra.Command{
		Use: "rogue", Short: "The hostile program of the tour, for a sandbox", Args: cobra.NoArgs, Hidden: true,
		RunE: c.do(func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGTERM) // the program is hostile: it runs until it is cut off
			return demo.Rogue(context.WithoutCancel(cmd.Context()), c.env, c.stdout)
		}),
	})
	return cmd
}

func (c demoCommand) demo(ctx context.Context) error {
	started := time.Now()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	shop, err := demo.OpenShop(ctx)
	if err != nil {
		return err
	}
	defer shop.Close()
	host, err := demo.OpenHost(ctx)
	if err != nil {
		return err
	}
	defer host.Close()
	pay, err := demo.OpenPayments(ctx)
	if err != nil {
		return err
	}
	defer pay.Close()
	dir, err := os.MkdirTemp("", "ebb-demo-")
	if err != nil {
		return fail(err.Error(), "set TMPDIR to a directory that this user can write to")
	}
	defer os.RemoveAll(dir)
	environ, err := pay.Environ(dir)
	if err != nil {
		return err
	}
	people, keys, err := demoPeople(shop.URL)
	if err != nil {
		return err
	}
	e, err := embed(ctx, embedding{
		People: people, Environ: environ, Resolver: pay,
		Providers: []config.Provider{
			{Name: demo.PaymentsProvider, Kind: "static", Resource: "https://" + pay.Host, Config: pay.Options()},
			{Name: demo.Provider, Kind: "jwt", Resource: shop.URL},
			{Name: demo.SSHProvider, Kind: "ssh", Resource: "https://" + host.Addr, Config: []byte(demo.SSHOptions)},
		},
		Limits: broker.Limits{PollInterval: time.Second},
	})
	if err != nil {
		return err
	}
	c.printf("ebb demo: one task, from its sandbox to the last revoked credential; each line is checked\n")
	err = demo.Run(ctx, demo.Config{
		Issuer: e.url, Shop: shop, Host: host, Payments: pay, DataDir: e.dir, Keys: keys, Executable: self, Checkpoint: e.node.broker.Checkpoint, Public: e.publicKeys, Broker: e.node.broker,
		Out: c.stdout, HTTP: &http.Client{Timeout: 30 * time.Second},
	}, started)
	if err := errors.Join(err, e.end()); err != nil {
		return fail(err.Error(), "please report the output above as a bug")
	}
	return nil
}

// demoPeople returns the principals of the tour, each with a fresh key.
func demoPeople(resource string) ([]broker.PrincipalConfig, map[string]jose.Signer, error) {
	return withKeys([]broker.Principal{
		{ID: demo.Runner, Roles: []broker.Role{broker.RoleRunner, broker.RoleApprover}, Groups: []string{"approvers"}},
		{ID: demo.Approver, Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}},
		{ID: demo.Auditor, Roles: []broker.Role{broker.RoleAuditor}},
		{ID: demo.Operator, Roles: []broker.Role{broker.RoleOperator}},
		{ID: demo.Server, Roles: []broker.Role{broker.RoleResourceServer}, Audiences: []string{resource}},
	})
}

// withKeys gives each principal a fresh key.
func withKeys(people []broker.Principal) ([]broker.PrincipalConfig, map[string]jose.Signer, error) {
	var out []broker.PrincipalConfig
	signers := map[string]jose.Signer{}
	for _, p := range people {
		signer, err := client.NewKey(jose.ES256)
		if err != nil {
			return nil, nil, err
		}
		key, err := keyfile.Public(signer)
		if err != nil {
			return nil, nil, err
		}
		signers[p.ID] = signer
		out = append(out, broker.PrincipalConfig{Principal: p, Keys: []jose.Key{key}})
	}
	return out, signers, nil
}

// quiet returns a logger that discards everything: an error of an embedded
// service shows as an expectation that fails.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// demoConsole runs an ebb with embedded services and the history of one working
// day, until it is interrupted.
func (c demoCommand) demoConsole(ctx context.Context, listen string) error {
	desk, err := history.OpenHelpdesk(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = desk.Close() }()
	dir, err := os.MkdirTemp("", "ebb-demo-")
	if err != nil {
		return fail(err.Error(), "set TMPDIR to a directory that this user can write to")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	e, clock, keys, err := historyNode(ctx, desk, dir, listen)
	if err != nil {
		return err
	}
	err = history.Run(ctx, history.Config{Issuer: e.url, Keys: keys, Clock: clock, Helpdesk: desk, HTTP: &http.Client{Timeout: 30 * time.Second}, Broker: e.node.broker, Sessions: e.node.store, Transcripts: e.node.transcripts})
	if err == nil {
		err = historyDraft(ctx, e)
	}
	if err == nil {
		err = c.invite(ctx, e, clock.Now)
	}
	return errors.Join(err, e.end())
}

// historyDraft creates a policy draft whose changes a reviewer should question.
func historyDraft(ctx context.Context, e *embedded) error {
	files, err := history.DraftPolicies()
	if err != nil {
		return err
	}
	author, _ := e.node.broker.Principal(history.Operator)
	_, err = e.node.broker.DraftPolicies(ctx, author, "Fewer questions about code and the helpdesk", files)
	return err
}

// historyNode starts an ebb whose clock begins when the history does. dir is
// for the files with its secrets.
func historyNode(ctx context.Context, desk *history.Helpdesk, dir, listen string) (*embedded, *history.Clock, map[string]jose.Signer, error) {
	providers, err := historyProviders(desk, dir)
	if err != nil {
		return nil, nil, nil, err
	}
	policies, err := history.Policies()
	if err != nil {
		return nil, nil, nil, err
	}
	people, keys, err := withKeys(history.People())
	if err != nil {
		return nil, nil, nil, err
	}
	clock := history.NewClock(history.Length)
	e, err := embed(ctx, embedding{
		Environ: []string{"EBB_LISTEN=" + listen, "EBB_POLICY_SOURCE=database", "EBB_CONSOLE_BREAK_GLASS_GROUPS=finance", "EBB_EGRESS_TRANSCRIPTS_RULES=[{name: orders, hosts: [orders.example], methods: [GET, POST], paths: [/**]}]"}, People: people, Providers: providers, Policy: policies, Now: clock.Now,
		Limits: broker.Limits{PollInterval: time.Second, MaxTaskTTL: 8 * time.Hour},
	})
	return e, clock, keys, err
}

// historyProviders returns resource servers that accept ebb's own tokens, and
// the helpdesk, which mints its own.
func historyProviders(desk *history.Helpdesk, dir string) ([]config.Provider, error) {
	var out []config.Provider
	for _, p := range []config.Provider{
		{Name: "code", Words: provider.Words{Reversible: []string{"write", "review", "close-issues"}}},
		{Name: "deploy", Words: provider.Words{Reversible: []string{"write"}}},
		{Name: "billing", Words: provider.Words{Irreversible: []string{"refund", "credit"}}},
		{Name: "orders"},
	} {
		p.Kind, p.Resource = "jwt", "https://"+p.Name+".example"
		out = append(out, p)
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(desk.Secret), 0o600); err != nil {
		return nil, err
	}
	oauth, err := json.Marshal(map[string]any{
		"token_endpoint": desk.URL + "/token", "revocation_endpoint": desk.URL + "/revoke", "introspection_endpoint": desk.URL + "/introspect",
		"client": map[string]string{"id": history.ClientID, "auth": "client_secret_basic", "secret_file": secret},
		"grants": map[string]any{"tickets": map[string]any{"actions": map[string]string{"read": "tickets.read", "reply": "tickets.reply"}}},
	})
	if err != nil {
		return nil, err
	}
	return append(out, config.Provider{Name: "helpdesk", Kind: "oauth", Resource: "https://helpdesk.example", Config: oauth}), nil
}

// invite prints sign-in links for every person, and new ones each time Enter is
// pressed.
func (c demoCommand) invite(ctx context.Context, e *embedded, now func() time.Time) error {
	again := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(c.stdin); lines.Scan(); {
			select {
			case again <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		c.printf("Sign in, within two minutes and once each, as\n\n")
		for _, p := range history.People() {
			if p.Has(broker.RoleRunner) {
				continue
			}
			p.AuthAt = now()
			link, _, err := e.node.links.Make(ctx, p)
			if err != nil {
				return err
			}
			c.printf("  %-4s %-38s %s\n", p.ID, what(p), link.Reveal())
		}
		c.printf("\nPress Enter for new links, Ctrl-C to stop.\n")
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		}
	}
}

// what describes the roles and groups of p.
func what(p broker.Principal) string {
	roles := make([]string, len(p.Roles))
	for i, r := range p.Roles {
		roles[i] = string(r)
	}
	text := strings.Join(roles, ", ")
	if len(p.Groups) > 0 {
		text = fmt.Sprintf("%s (%s)", text, strings.Join(p.Groups, ", "))
	}
	return text
}

// embedding configures an ebb that runs inside one command.
type embedding struct {
	Environ   []string // EBB_ variables of the configuration, for real stores
	People    []broker.PrincipalConfig
	Providers []config.Provider
	Limits    broker.Limits
	Policy    fs.FS            // nil = the starter policy
	Now       func() time.Time // nil = time.Now
	Log       *slog.Logger     // nil = silent
	Resolver  egress.Resolver  // resolves upstreams of sandboxes; nil = the machine's resolver
}

// embedded is an ebb that runs inside one command.
type embedded struct {
	node *node
	url  string
	dir  string
	stop context.CancelFunc
	done chan error
}

// embed starts an ebb on a free port of loopback, with its data in a temporary
// directory.
func embed(ctx context.Context, b embedding) (_ *embedded, err error) {
	dir, err := os.MkdirTemp("", "ebb-") // mode 0700
	if err != nil {
		return nil, fail(err.Error(), "set TMPDIR to a directory that this user can write to")
	}
	e := &embedded{dir: dir, done: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	cfg, err := config.Load(config.Source{Environ: append([]string{"EBB_LISTEN=127.0.0.1:0", "EBB_DATA_DIR=" + filepath.Join(dir, "data")}, b.Environ...)})
	if err != nil {
		return nil, err
	}
	cfg.Providers, cfg.Limits = b.Providers, b.Limits
	cfg.Limits.MaxTaskTTL = max(cfg.Limits.MaxTaskTTL, time.Hour)
	if b.Log == nil {
		b.Log = quiet()
	}
	e.node, err = assemble(ctx, settings{Config: cfg, Log: b.Log, Principals: b.People, Policy: b.Policy, Now: b.Now, Resolver: b.Resolver})
	if err != nil {
		return nil, err
	}
	e.url = e.node.url
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	go func() { e.done <- e.node.serve(running, nil) }()
	return e, nil
}

// end stops the ebb and removes its directory.
func (e *embedded) end() error {
	e.stop()
	return errors.Join(<-e.done, os.RemoveAll(e.dir))
}

// publicKeys returns the keys that verify the audit log of this ebb.
func (e *embedded) publicKeys() (jose.KeySet, error) {
	return jose.ParseJWKS(e.node.broker.JWKS())
}
