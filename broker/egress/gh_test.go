package egress_test

import (
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// ghSocket returns a socket by which gh, which believes that it talks to api.github.com, reaches the
// test's GitHub through the sandbox's egress endpoint.
func (p *pushBed) ghSocket(t *testing.T, x *sandbox) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gh") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(p.at)
	if err != nil {
		t.Fatal(err)
	}
	relay := httptest.NewUnstartedServer(&httputil.ReverseProxy{Transport: x.client(t, true).Transport, Rewrite: func(r *httputil.ProxyRequest) {
		path := "/api/v3" + r.In.URL.Path
		if r.In.URL.Path == "/graphql" {
			path = "/api/graphql"
		}
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host, r.Out.URL.Path = at.Scheme, at.Host, at.Host, path
		r.Out.Header.Del("X-Forwarded-For")
	}})
	_ = relay.Listener.Close()
	relay.Listener = l
	relay.Start()
	t.Cleanup(relay.Close)
	return l.Addr().String()
}

// ghUser is the real gh in a sandbox.
type ghUser struct {
	program, dir, socket, placeholder string
}

func (u ghUser) run(t *testing.T, line string) (string, error) {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.yml"), []byte("http_unix_socket: "+u.socket+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), u.program, strings.Fields(line)...)
	cmd.Dir = u.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GH_CONFIG_DIR=" + home, "GH_TOKEN=" + u.placeholder, "GH_PROMPT_DISABLED=1", "NO_COLOR=1", "GH_NO_UPDATE_NOTIFIER=1"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The unmodified gh works through egress with the scopes that a person would name. With less, gh
// shows the scopes to ask for, and nothing changes.
//
//ebb:invariant I5 A GraphQL mutation reaches the upstream only if the lease's scopes cover it
func TestGH(t *testing.T) {
	t.Parallel()
	gh := counterpart.Program(t, "gh")
	p := newPushBed(t, `@id("all") @why("all") permit (principal, action, resource);`)
	p.commit(t, "first")
	p.must(t, "push", "-q", p.bare, "main", "main:agent/fix")
	p.must(t, "remote", "set-url", "origin", "https://github.com/acme/web.git")
	p.must(t, "branch", "agent/fix")
	reads, writes, twice := p.b.boxFor(t, "gh:**:*"), p.b.boxFor(t, "gh:**:*"), p.b.boxFor(t, "gh:**:*")
	twice.placeholder(t, "gh:acme/web/contents:read")
	of := map[string]ghUser{
		"reads":  {gh, p.work, p.ghSocket(t, reads), reads.placeholder(t, "gh:acme/web/pull_requests:read gh:acme/web/issues:read")},
		"writes": {gh, p.work, p.ghSocket(t, writes), writes.placeholder(t, "gh:acme/web/pull_requests:write gh:acme/web/issues:write")},
		// Of two leases, the named one decides about the scopes that a refusal shows.
		"twice": {gh, p.work, p.ghSocket(t, twice), twice.placeholder(t, "gh:acme/web/pull_requests:read")},
	}
	for _, tt := range []struct{ who, line, want, needs string }{
		{"reads", "pr create --title T --body B --base main --head agent/fix", "", "gh:acme/web/pull_requests:write"},
		{"writes", "pr create --title T --body B --base main --head agent/fix", "/pull/1\n", ""},
		{"reads", "pr view 1 --json number,title,state", `{"number":1,"state":"OPEN","title":"T"}`, ""},
		{"reads", "pr comment 1 --body no", "", "gh:acme/web/issues:write"},
		{"twice", "pr comment 1 --body no", "", "--scope 'gh:acme/web/pull_requests:read gh:acme/web/pull_requests:write'"},
		{"writes", "pr comment 1 --body hello", "/pull/1#issuecomment-1\n", ""},
		{"writes", "pr merge 1 --merge", "", "gh:acme/web/contents:write gh:acme/web/pull_requests:write"},
		{"reads", "issue create --title I --body B", "", "gh:acme/web/issues:write"},
		{"writes", "issue create --title I --body B", "/issues/2\n", ""},
		{"reads", "issue close 2", "", "gh:acme/web/issues:write"},
		{"writes", "issue close 2", "Closed", ""},
		{"reads", "issue view 2 --json state --jq .state", "CLOSED", ""},
		{"reads", "pr view 1 --json state --jq .state", "OPEN", ""},
	} {
		out, err := of[tt.who].run(t, tt.line)
		if (err == nil) != (tt.needs == "") || !strings.Contains(out, tt.want) || tt.needs != "" && !strings.Contains(out, tt.needs) {
			t.Errorf("%s, %s: %v\n%s", tt.who, tt.line, err, out)
		}
	}
	// The same placeholder serves after the sandbox got a wider lease.
	writes.placeholder(t, "gh:acme/web/pull_requests:write gh:acme/web/contents:write")
	if out, err := of["writes"].run(t, "pr merge 1 --merge"); err != nil {
		t.Errorf("merge with the scopes: %v\n%s", err, out)
	}
	if out, err := of["reads"].run(t, "pr view 1 --json state --jq .state"); err != nil || out != "MERGED\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// A credential that was approved for one mutation sends this mutation and no other. Another lease of
// the sandbox serves requests that only read.
func TestGHApproved(t *testing.T) {
	t.Parallel()
	gh := counterpart.Program(t, "gh")
	p := newPushBed(t, `
@id("reads") @why("reads") permit (principal, action == Ebb::Action::"read", resource);
@id("writes") @why("writes") @ask("approvers") permit (principal, action == Ebb::Action::"write", resource);`)
	p.commit(t, "first")
	p.must(t, "remote", "set-url", "origin", "https://github.com/acme/web.git")
	u := ghUser{gh, p.work, p.ghSocket(t, p.sandbox), p.placeholder(t, "gh:acme/web/issues:read")}
	out, err := u.run(t, "issue create --title I --body B")
	id := contentForm.FindString(out)
	if err == nil || id == "" {
		t.Fatalf("%v\n%s", err, out)
	}
	p.approved(t, "gh:acme/web/issues:read gh:acme/web/issues:write", id, "createIssue")
	for _, line := range []string{"issue create --title I2 --body B", "issue create --title I --body B2", "issue close 1"} {
		if out, err := u.run(t, line); err == nil {
			t.Errorf("%s: %s", line, out)
		}
	}
	c := p.client(t, true)
	if res, body := send(t, c, "POST", p.at+"/api/v3/repos/acme/web/issues", `{"title":"I"}`, "Authorization", "Bearer "+u.placeholder); res.StatusCode != 403 {
		t.Errorf("by the REST API: %d %s", res.StatusCode, body)
	}
	if out, err := u.run(t, "issue create --title I --body B"); err != nil || !strings.Contains(out, "/issues/1\n") {
		t.Errorf("the approved one: %v\n%s", err, out)
	}
	if out, err := u.run(t, "issue view 1 --json title --jq .title"); err != nil || out != "I\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
