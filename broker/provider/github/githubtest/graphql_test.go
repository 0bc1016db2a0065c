package githubtest_test

import (
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
)

// TestGH lets the real gh use pull requests and issues, through GraphQL, within the permissions of
// its token.
func TestGH(t *testing.T) {
	t.Parallel()
	gh := counterpart.Program(t, "gh")
	b := newBed(t)
	b.clock.Set(time.Now())
	b.Install(githubtest.Installation{ID: 11, Owner: "acme", Permissions: map[string]string{"metadata": "read", "contents": "write", "issues": "write", "pull_requests": "write"}, Repositories: []int64{1, 2}})
	mint := func(body string) string {
		code, got, _ := b.do("POST", "/app/installations/11/access_tokens", "Bearer "+b.jwt(), body)
		if code != 201 {
			t.Fatalf("mint: %d %v", code, got)
		}
		return got["token"].(string)
	}
	dir := t.TempDir()
	socket := overSocket(t, b)
	if err := os.WriteFile(dir+"/config.yml", []byte("http_unix_socket: "+socket+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	git := counterpart.Program(t, "git")
	for _, line := range []string{"init -q -b main", "remote add origin https://github.com/acme/web.git", "-c user.name=a -c user.email=a@example.com commit -q --allow-empty -m x", "branch agent/fix"} {
		cmd := exec.CommandContext(t.Context(), git, strings.Fields(line)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", line, err, out)
		}
	}
	run := func(token, line string) (string, error) {
		cmd := exec.CommandContext(t.Context(), gh, strings.Fields(line)...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GH_CONFIG_DIR=" + dir, "GH_TOKEN=" + token, "GH_PROMPT_DISABLED=1", "NO_COLOR=1", "GH_NO_UPDATE_NOTIFIER=1"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	all := mint(`{"repository_ids":[1],"permissions":{"contents":"write","issues":"write","pull_requests":"write"}}`)
	reads := mint(`{"repository_ids":[1],"permissions":{"contents":"write","issues":"read","pull_requests":"read"}}`)
	other := mint(`{"repository_ids":[2],"permissions":{"issues":"write","pull_requests":"write"}}`)
	for _, tt := range []struct{ token, line, want string }{
		{all, "pr create --title T --body B --base main --head agent/fix", "/pull/1\n"},
		{all, "pr view 1 --json number,title,body,state", `{"body":"B","number":1,"state":"OPEN","title":"T"}`},
		{all, "pr list --head agent/fix --json number", `[{"number":1}]`},
		{all, "pr comment 1 --body hello", "/pull/1#issuecomment-1\n"},
		{all, "pr view 1 --comments", "hello"},
		{all, "pr edit 1 --title T2", "/pull/1\n"},
		{all, "pr close 1", "Closed"},
		{all, "pr reopen 1", "Reopened"},
		{reads, "pr comment 1 --body no", "not accessible by integration"},
		{reads, "pr merge 1 --merge", "not accessible by integration"},
		{other, "pr view 1", "Could not resolve to a Repository"},
		{all, "pr merge 1 --merge", ""},
		{all, "pr view 1 --json state,title", `{"state":"MERGED","title":"T2"}`},
		{all, "issue create --title I --body B", "/issues/2\n"},
		{all, "issue comment 2 --body hi", "/issues/2#issuecomment-1\n"},
		{reads, "issue create --title I --body B", "not accessible by integration"},
		{reads, "issue close 2", "not accessible by integration"},
		{all, "issue close 2", "Closed"},
		{reads, "issue view 2 --json state,title,comments --jq .state", "CLOSED"},
		{all, "issue list --state all --json number", `[{"number":2}]`},
		{all + "x", "issue view 2", "401"},
	} {
		out, err := run(tt.token, tt.line)
		if failed := tt.token != all && tt.token != reads || strings.Contains(tt.want, "not accessible"); (err != nil) != failed || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v\n%s", tt.line, err, out)
		}
	}
}

// overSocket passes the requests that arrive at a unix socket, without TLS, to the server. It
// returns the path of the socket.
func overSocket(t *testing.T, b *bed) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gh")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", dir+"/s") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{Transport: b.http.Transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
	_ = proxy.Listener.Close()
	proxy.Listener = l
	proxy.Start()
	t.Cleanup(proxy.Close)
	return dir + "/s"
}
