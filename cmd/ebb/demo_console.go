package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/history"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

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
