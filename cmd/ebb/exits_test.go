package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exits are the files that may read the bytes of a secret (Secret.Reveal) or an
// agent's text (Untrusted.Raw). Every other file gets "[redacted]" or nothing.
// A new line is a security decision and needs its reason.
var exits = map[string][]string{
	"Reveal": {
		"broker/secret/secret.go",                // the type itself: Equal and Hash
		"broker/provider/secret.go",              // is its length one that egress can add
		"broker/provider/sealing.go",             // into a handle, and into a request that egress sends
		"broker/provider/providertest/",          // the suite looks at what a driver minted
		"broker/provider/github/call.go",         // the App's private key, to sign with; into the Authorization header of GitHub's API
		"broker/provider/github/inject.go",       // into a request for GitHub that egress sends
		"broker/brokertest/",                     // the test sandbox uses its own token
		"web/api/tasks.go",                       // a ticket, to the runner or the sandbox that asked for it
		"web/api/sandboxes.go",                   // a task token, to the sandbox that enrolled
		"web/api/signin.go",                      // a link into the console, to the principal that it signs in
		"web/api/token.go",                       // a token, to the sandbox it is bound to
		"web/api/backchannel.go", "web/oauth.go", // a deferral code, to the client that waits
		"web/client/outgoing.go",                 // the wire, seen from the client
		"cmd/ebb/task.go", "cmd/ebb/delegate.go", // a ticket, printed for the runner or the sandbox that asked for it
		"cmd/ebb/demo.go",                                  // that link, printed for the person who asked for it
		"cmd/ebb/console.go",                               // that link, printed for the person who asked for it, or into a file of this user alone, for the person's browser
		"cmd/ebb/token.go",                                 // a token, printed for the tool that asked for it
		"cmd/ebb/run_out.go", "cmd/ebb/run_credentials.go", // a placeholder, into the environment of a sandbox
		"cmd/ebb/credential.go",                        // a token, printed for the tool that asked for it; a certificate, which hosts see, to the agent that has its key
		"cmd/ebb/internal/awskeys/",                    // a key, for the client of AWS that asked for it
		"cmd/ebb/internal/ask/",                        // a token, from the runner into the sandbox that asked for it
		"cmd/ebb/internal/mcp/outcome.go",              // a placeholder, which is a name, to the agent that asked for it
		"cmd/ebb/internal/demo/acts.go",                // the tour hands its ticket to its sandbox
		"cmd/ebb/internal/demo/sandbox.go",             // the tour's careless tool
		"broker/redisstore/config.go",                  // the password, into the connection
		"cmd/ebb-bench/internal/bench/people.go",       // the bench is its own sandbox
		"cmd/ebb-bench/internal/egressbench/people.go", // it holds a placeholder, which proves nothing
		"broker/awsapi/client.go",                      // ebb's own key, to sign with
		"broker/provider/aws/session.go",               // handles
		"broker/provider/postgres/",                    // the broker's password, into the connection; handles
		"broker/provider/gcp/",                         // the broker's key and login, and a token that is exchanged
		"broker/provider/kubernetes/",                  // the broker's login, into the request; handles
		"broker/provider/vault/",                       // handles
		"broker/vaultapi/",                             // the login at Vault, and tokens of leases
		"broker/provider/oauth/",                       // to the authorization server: the client's secret or certificate, refresh tokens, tokens to revoke
		"web/signin/oidc/provider.go",                  // the client's secret, to the identity provider
		"broker/provider/static/",                      // into a request that egress sends
		"broker/provideradmin/providers.go",            // is it empty, is it too long
		"web/client/secrets.go",                        // to the broker that keeps it
		"attest/kubernetes/api.go",                     // ebb's own token, into a request to the API server
		"broker/seal/",                                 // to encrypt it
		"broker/notify/webhook/webhook.go",             // keys, to sign with
		"broker/notify/post.go",                        // the address, which is the secret, into the client
		"broker/notify/email/send.go",                  // the password, to the mail server
		"cmd/ebb/stores.go",                            // the password, into the address of the database
	},
	"Raw": {
		"broker/agenttext/",                 // the type itself
		"broker/storetest/",                 // the suite looks at what was stored
		"cmd/ebb/internal/mcp/arguments.go", // to ebb, which keeps it
	},
}

func TestClosedExits(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, p := range ownPackages(t) {
		for _, name := range p.GoFiles {
			file := filepath.Join(p.Dir, name)
			rel, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range calls(t, file) {
				i := slices.IndexFunc(exits[call], func(a string) bool { return strings.HasPrefix(filepath.ToSlash(rel), a) })
				if i < 0 {
					t.Errorf("%s calls %s: list it in exits_test.go with its reason, or do without", rel, call)
					continue
				}
				used[call+" "+exits[call][i]] = true
			}
		}
	}
	for call, allowed := range exits {
		for _, place := range allowed {
			if !used[call+" "+place] {
				t.Errorf("%s does not call %s: remove it from exits_test.go", place, call)
			}
		}
	}
}

// calls lists the watched methods that a file calls: by name and without
// arguments, which no other type of this repository has.
func calls(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Errorf("%s: %v", file, err)
		return nil
	}
	var names []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.CallExpr:
			if sel, ok := e.Fun.(*ast.SelectorExpr); ok && len(e.Args) == 0 && exits[sel.Sel.Name] != nil {
				names = append(names, sel.Sel.Name)
			}
		case *ast.SelectorExpr:
			// Passing the method value on also reveals the secret.
			if x, ok := e.X.(*ast.SelectorExpr); ok && (x.Sel.Name == "Secret" || x.Sel.Name == "Untrusted") && exits[e.Sel.Name] != nil {
				names = append(names, e.Sel.Name)
			}
		}
		return true
	})
	return names
}
