package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/contexts"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

func newLogin(c *cli) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "login URL", Short: "Store an ebb and your key for it under a name, for later commands", Args: cobra.ExactArgs(1),
		Long: `Check that the ebb at URL answers, that URL is its issuer and that it accepts your key,
and store all of them as a context. The context becomes the current one: commands call
that ebb unless --context, --url or EBB_URL names another. 'ebb context use local'
returns to the ebb of this machine.

Your key proves who you are: 'ebb keys new FILE --client-id NAME' creates one, and the
operator of that ebb adds its public JWK to principals of the configuration. The key is
not copied. To approve requests without a key, sign in to the console of that ebb in a
browser.`,
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the context; default: the host of URL")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		x, err := contextCommands{c}.loggedIn(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if name == "" {
			u, err := url.Parse(x.URL)
			if err != nil {
				return err
			}
			name = u.Host
		}
		if err := contexts.CheckName(name); err != nil {
			return usage("--name: "+err.Error(), "name the context with --name")
		}
		f, err := c.contexts()
		if err != nil {
			return err
		}
		if f.Contexts == nil {
			f.Contexts = map[string]contexts.Context{}
		}
		f.Contexts[name], f.Current = x, name
		if err := (contextCommands{c}).save(f); err != nil {
			return err
		}
		c.printf("%s accepts %s; commands call it now (context %s)\n", out.Line(x.URL), out.Line(x.ClientID), name)
		return nil
	})
	return c.trust(c.principal(cmd))
}

// loggedIn checks that the server at address is an ebb with that issuer and
// accepts the key.
func (c contextCommands) loggedIn(ctx context.Context, address string) (x contexts.Context, err error) {
	x = contexts.Context{URL: strings.TrimRight(address, "/"), CAFile: c.caFile, KeyFile: c.keyFile}
	if x.KeyFile == "" {
		return x, usage("--key is missing: ebb knows you by your key", "name it with --key or EBB_KEY_FILE; `ebb keys new FILE --client-id NAME` creates one for the operator of that ebb to register")
	}
	for _, path := range []*string{&x.CAFile, &x.KeyFile} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return x, err
			}
		}
	}
	c.url = x.URL
	o, err := c.operator(operatorKey) // refuses http beyond this machine
	if err != nil {
		return x, err
	}
	f, err := keyfile.Read(x.KeyFile)
	if err != nil {
		return x, err
	}
	x.ClientID = cmp.Or(c.clientID, f.ClientID)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := c.checkIssuer(ctx, x.URL); err != nil {
		return x, err
	}
	// Every role may authenticate; not every role may read the policy.
	if _, err = o.Policy.Get(ctx); err != nil && !client.IsKind(err, wire.KindForbidden) {
		return x, err
	}
	return x, nil
}

// checkIssuer reads the metadata of the server at address, whose issuer must be
// that address (RFC 8414 section 3.3).
func (c contextCommands) checkIssuer(ctx context.Context, address string) error {
	hc, err := c.httpClient()
	if err != nil {
		return err
	}
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/.well-known/openid-configuration", nil)
	if err != nil {
		return usage(err.Error(), "write the URL like https://ebb.example.com")
	}
	resp, err := hc.Do(req)
	if err != nil {
		f := unreachable(address, err)
		return &failure{Code: exitUnavailable, Text: f.Said, Next: f.Remedy}
	}
	defer resp.Body.Close()
	var m struct {
		Issuer string `json:"issuer"`
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&m)
	switch {
	case resp.StatusCode != http.StatusOK || err != nil || m.Issuer == "":
		return fail("the server at "+address+" is not an ebb: its metadata cannot be read", "check the URL; it is public_url in the configuration of that ebb")
	case m.Issuer != address:
		return fail("the ebb at "+address+" has the issuer "+out.Line(m.Issuer), "run `ebb login` with that URL if you trust it, or have public_url corrected")
	}
	return nil
}
