package egress_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// pushBed is a sandbox with git, and a GitHub whose repository acme/web is a real one.
type pushBed struct {
	*sandbox
	git   string
	at    string // base URL of git
	bare  string // directory of acme/web at GitHub
	work  string // a clone in the sandbox
	proxy string
	ca    string
	auth  string // placeholder that git sends; "" = none
}

func newPushBed(t *testing.T, policies string) *pushBed {
	t.Helper()
	git := counterpart.Program(t, "git")
	hub := githubtest.New(t, githubtest.Config{Now: time.Now, Prefix: "/api/v3"})
	hub.Put(githubtest.Repository{ID: 1, Owner: "acme", Name: "web"})
	may := map[string]string{"metadata": "read", "contents": "write", "issues": "write", "pull_requests": "write"}
	hub.Install(githubtest.Installation{ID: 11, Owner: "acme", Permissions: may, Repositories: []int64{1}})
	root := hub.Bare()
	key := filepath.Join(t.TempDir(), "app.pem")
	hub.Trust(githubtest.Key(t))
	hub.WriteKey(key, githubtest.Key(t))
	at := "https://" + hubName + hub.Git[strings.LastIndexByte(hub.Git, ':'):]
	driver, err := github.New(github.Config{
		ClientID: "Iv23liEbbTest00000001", PrivateKeyFile: key, Installations: map[string]int64{"acme": 11}, Permissions: may, Repositories: map[string]int64{"acme/web": 1},
		APIURL: at + "/api/v3", GitURL: at, CAFile: hub.CAFile(), TimeoutSeconds: 60, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	b := newBedOn(t, echo, func(c *brokertest.Config) {
		c.Providers["gh"] = broker.Provider{Driver: driver, Kind: "github", Resource: at + "/"}
		c.Policies["p.cedar"] = []byte(policies)
	})
	b.leadsHere(hubName)
	p := &pushBed{sandbox: b.boxFor(t, "gh:**:*"), git: git, at: at, bare: filepath.Join(root, "acme", "web.git"), work: t.TempDir()}
	p.proxied(t)
	p.must(t, "init", "-q", "-b", "main")
	p.must(t, "remote", "add", "origin", at+"/acme/web.git")
	return p
}

// proxied makes git use the egress endpoint of the sandbox.
func (p *pushBed) proxied(t *testing.T) {
	t.Helper()
	p.proxy = "http://" + onTCP(t, p.dial)
	p.ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(p.ca, []byte(p.pem), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs git in the sandbox's clone.
func (p *pushBed) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.git, append([]string{
		"-C", p.work, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "http.proxy=" + p.proxy, "-c", "http.sslCAInfo=" + p.ca, "-c", "credential.helper=", "-c", "core.askPass=true",
		"-c", "commit.gpgSign=false", "-c", "http.extraHeader=Authorization: Bearer " + p.auth, "-c", "advice.pushUpdateRejected=false", "-c", "gc.auto=0",
	}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.work, "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *pushBed) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.run(t, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// commit makes a commit and returns its id.
func (p *pushBed) commit(t *testing.T, text string) string {
	t.Helper()
	p.must(t, "commit", "-q", "--allow-empty", "-m", text)
	return p.must(t, "rev-parse", "HEAD")
}

// landed returns the refs at GitHub, as "name id" lines.
func (p *pushBed) landed(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), p.git, "-c", "safe.directory=*", "-C", p.bare, "for-each-ref", "--format=%(refname) %(objectname)").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// A lease with scopes for refs pushes only what these scopes say: it creates and updates branches
// below agent/, and neither forces, deletes, nor changes another branch. git shows the reason and
// the scope to ask for, and the audit log has each ref with its commits.
//
//ebb:invariant I5 A push reaches the upstream only if the lease's scopes cover each ref that it creates, updates, overwrites or deletes
func TestPushScopes(t *testing.T) {
	t.Parallel()
	p := newPushBed(t, `@id("all") @why("all") permit (principal, action, resource);`)
	first := p.commit(t, "first")
	p.must(t, "push", "-q", p.bare, "main")
	p.auth = p.placeholder(t, "gh:acme/web/refs/heads/agent/**:create gh:acme/web/refs/heads/agent/**:update")

	p.must(t, "checkout", "-q", "-b", "agent/x")
	second := p.commit(t, "second")
	p.must(t, "push", "-q", "origin", "agent/x")
	third := p.commit(t, "third")
	p.must(t, "push", "-q", "origin", "agent/x")
	// GitHub has the commits of this update already, and is asked about them.
	p.must(t, "push", "-q", "origin", first+":refs/heads/agent/y")
	p.must(t, "push", "-q", "origin", second+":refs/heads/agent/y")
	want := fmt.Sprintf("refs/heads/agent/x %s\nrefs/heads/agent/y %s\nrefs/heads/main %s\n", third, second, first)
	if got := p.landed(t); got != want {
		t.Fatalf("landed:\n%s\nwant:\n%s", got, want)
	}
	for name, r := range map[string]struct{ push, needs string }{
		"another branch":         {"agent/x:main", "gh:acme/web/refs/heads/main:update"},
		"a force":                {"+" + first + ":refs/heads/agent/x", "gh:acme/web/refs/heads/agent/x:force"},
		"a delete":               {":refs/heads/agent/x", "gh:acme/web/refs/heads/agent/x:delete"},
		"a tag":                  {"agent/x:refs/tags/v1", "gh:acme/web/refs/tags/v1:create"},
		"beside an allowed one":  {"agent/x:agent/z agent/x:main", "gh:acme/web/refs/heads/agent/z:create gh:acme/web/refs/heads/main:update"},
		"a name of another form": {"agent/x:agent/a#b", ""},
		"many":                   {manyPushes(), manyScopes()},
	} {
		out, err := p.run(t, append([]string{"push", "origin"}, strings.Fields(r.push)...)...)
		if err == nil || !strings.Contains(out, "[remote rejected]") || !strings.Contains(strings.ReplaceAll(out, "\nremote: ", ""), "--scope '"+r.needs+"'") && r.needs != "" {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if got := p.landed(t); got != want {
		t.Errorf("landed after the refused pushes:\n%s\nwant:\n%s", got, want)
	}
	if out, err := p.run(t, "ls-remote"); err == nil || !strings.Contains(out, "remote: ") || !strings.Contains(out, "--scope 'gh:acme/web/contents:read'") {
		t.Errorf("a fetch: %v\n%s", err, out)
	}
	p.audited(t, second, third)

	// git names the same placeholder after the sandbox got a wider lease, which is used then.
	p.placeholder(t, "gh:acme/web/contents:read gh:acme/web/refs/heads/main:update")
	p.must(t, "push", "-q", "origin", "agent/x:main")
	p.must(t, "fetch", "-q", "origin")
	if got := p.landed(t); !strings.Contains(got, "refs/heads/main "+third) {
		t.Errorf("landed with the wider lease:\n%s", got)
	}
	if out, err := p.run(t, "push", "origin", ":agent/x"); err == nil {
		t.Errorf("a delete with the wider lease:\n%s", out)
	}
}

// manyPushes are pushes to branches that the lease does not cover, and manyScopes the scopes that they
// need. git shows all of these scopes.
func manyPushes() string {
	return numbered("agent/x:refs/heads/release-of-the-year-2026/part-", 20, "")
}

func manyScopes() string {
	return numbered("gh:acme/web/refs/heads/release-of-the-year-2026/part-", 20, ":create")
}

func numbered(before string, n int, after string) string {
	var words []string
	for i := range n {
		words = append(words, fmt.Sprintf("%s%02d%s", before, i, after))
	}
	return strings.Join(words, " ")
}

// audited checks the audit entries of the pushes of TestPushScopes.
func (p *pushBed) audited(t *testing.T, second, third string) {
	t.Helper()
	log := ""
	for _, e := range p.b.uses(t, p.s.Task.ID) {
		if e.Kind == audit.EgressAllowed || e.Kind == audit.EgressDenied {
			log += e.Kind + " " + string(e.Data) + "\n"
		}
	}
	for _, want := range []string{
		`{"action":"update","details":{"commits":"1","new":"` + third + `","old":"` + second + `","repository":"acme/web"},"object":"refs/heads/agent/x"}`,
		`{"action":"create","details":{"new":"` + second + `","repository":"acme/web"},"object":"refs/heads/agent/x"}`,
		`{"action":"delete","details":{"repository":"acme/web","stated":"` + third + `"},"object":"refs/heads/agent/x"}`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the audit log lacks %s:\n%s", want, log)
		}
	}
}

// An approval for one push covers this push and no other: not another commit, another branch or
// another kind of change, although the scopes of the lease would.
//
//ebb:invariant I7 A credential that was approved for one content is good for no other request that changes something
func TestPushApproved(t *testing.T) {
	t.Parallel()
	p := newPushBed(t, `
@id("all") @why("all") permit (principal, action, resource) unless { resource in Ebb::Resource::"gh:acme/web/refs/heads/agent" };
@id("ask") @why("ask") @ask("approvers") permit (principal, action, resource in Ebb::Resource::"gh:acme/web/refs/heads/agent");`)
	p.commit(t, "first")
	p.must(t, "push", "-q", p.bare, "main")
	p.auth = p.placeholder(t, "gh:acme/web/contents:read")
	p.must(t, "checkout", "-q", "-b", "agent/x")
	wanted := p.commit(t, "wanted")
	out, err := p.run(t, "push", "origin", "agent/x")
	if err == nil {
		t.Fatalf("pushed by a lease that reads:\n%s", out)
	}
	// The first request of a push does not say what the push does, so that any scope for refs serves it.
	p.placeholder(t, "gh:acme/web/refs/heads/none:create")
	out, err = p.run(t, "push", "origin", "agent/x")
	id := contentForm.FindString(out)
	if err == nil || id == "" {
		t.Fatalf("the refusal names no content: %v\n%s", err, out)
	}
	p.approved(t, "gh:acme/web/refs/heads/agent/**:*", id, "refs/heads/agent/x")
	other := p.commit(t, "another commit")
	for _, push := range []string{other + ":refs/heads/agent/x", wanted + ":refs/heads/agent/y", wanted + ":refs/heads/main"} {
		if out, err := p.run(t, "push", "origin", push); err == nil || !strings.Contains(out, "[remote rejected]") {
			t.Errorf("%s: %v\n%s", push, err, out)
		}
	}
	p.must(t, "push", "-q", "origin", wanted+":refs/heads/agent/x")
	if got := p.landed(t); !strings.Contains(got, "refs/heads/agent/x "+wanted) {
		t.Errorf("landed:\n%s", got)
	}
	if out, err := p.run(t, "push", "origin", other+":refs/heads/agent/x"); err == nil {
		t.Errorf("the next commit:\n%s", out)
	}
}

var contentForm = regexp.MustCompile(`cnt_[0-9a-f]{32}`)

// approved asks for a credential that is limited to one content, has a person approve it who sees
// the ref, and fetches it. It returns its placeholder.
func (p *pushBed) approved(t *testing.T, scope, id, ref string) string {
	t.Helper()
	r := p.s.Request(t, scope)
	r.Content, r.Deferred = id, true
	_, err := p.b.Broker.Token(t.Context(), r)
	pending := broker.AsError(err).Pending
	if pending == nil {
		t.Fatalf("no person is asked: %v", err)
	}
	who := p.b.Principals[brokertest.Approver]
	req, err := p.b.Broker.Request(t.Context(), who, pending.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	f, err := req.Sheet()
	if err != nil || f.Content == nil || len(f.Content.Operations) != 1 || f.Content.Operations[0].Object != ref {
		t.Fatalf("the person sees %+v, %v", f.Content, err)
	}
	if _, err := p.b.Broker.Decide(t.Context(), who, req.ID, broker.Verdict{Approve: true, Digest: req.Digest, Target: req.Target(), Present: true}); err != nil {
		t.Fatal(err)
	}
	tok, err := p.s.Poll(t, pending.DeferralCode.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return tok.Token.Reveal()
}

// A content is taken only as ebb recorded it for this task.
func TestPushContentIsOfTheTask(t *testing.T) {
	t.Parallel()
	p := newPushBed(t, `@id("ask") @why("ask") @ask("approvers") permit (principal, action, resource);`)
	for _, id := range []string{"cnt_" + strings.Repeat("0", 32), "cnt_", "x", strings.Repeat("cnt_", 1000)} {
		r := p.s.Request(t, "gh:acme/web/refs/heads/agent/x:create")
		r.Content, r.Deferred = id, true
		if _, err := p.b.Broker.Token(t.Context(), r); broker.AsError(err).Kind != broker.Invalid {
			t.Errorf("%.40q: %v", id, err)
		}
	}
	r := p.b.sandbox(t).s.Request(t, "stripe:charges:read")
	r.Content, r.Deferred = "cnt_"+strings.Repeat("0", 32), true
	if _, err := p.b.Broker.Token(t.Context(), r); broker.AsError(err).Kind != broker.Invalid {
		t.Errorf("a provider that reads no bodies: %v", err)
	}
}

// A token that only Judge limits stays in ebb, also if the sandbox asks for the token itself.
func TestPushTokenStaysInEbb(t *testing.T) {
	t.Parallel()
	p := newPushBed(t, `@id("all") permit (principal, action, resource);`)
	for _, set := range []string{"gh:acme/web/refs/heads/agent/**:create", "gh:acme/web/refs/heads/agent/x:delete gh:acme/web/contents:read", "gh:acme/web/refs/**:*"} {
		r := p.s.Request(t, set)
		r.Delivery = policy.DeliveryToken
		got, err := p.b.Broker.Token(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got.Token.Reveal() != provider.Placeholder(got.LeaseID).Reveal() {
			t.Errorf("%s: the sandbox gets the token itself", set)
		}
	}
}

// A compressed push, which ebb decodes, is judged again for another lease as it was for the named one.
func TestPushCompressed(t *testing.T) {
	t.Parallel()
	p := newPushBed(t, `@id("all") @why("all") permit (principal, action, resource);`)
	first := p.commit(t, "first")
	p.must(t, "push", "-q", p.bare, "main:gone")
	named := p.placeholder(t, "gh:acme/web/refs/heads/none:create")
	p.placeholder(t, "gh:acme/web/refs/heads/gone:delete")
	line := first + " " + strings.Repeat("0", 40) + " refs/heads/gone\x00 report-status delete-refs"
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	if _, err := fmt.Fprintf(z, "%04x%s0000", len(line)+4, line); errors.Join(err, z.Close()) != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.at+"/acme/web.git/git-receive-pack", &body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/x-git-receive-pack-request"}, "Content-Encoding": {"gzip"}, "Authorization": {"Bearer " + named}}
	resp, err := p.client(t, false).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil || p.landed(t) != "" {
		t.Errorf("the branch is still there: %d %s, %v", resp.StatusCode, text, err)
	}
}

// An approval for one content serves no request without this content. An approval without a content
// serves both. Only the facts of a refused request of the same task are a content.
//
//ebb:invariant I7 An approval for one content is used for no request without this content
func TestPushApprovalsOfContents(t *testing.T) {
	t.Parallel()
	p := newPushBed(t, `
@id("reads") @why("reads") permit (principal, action == Ebb::Action::"read", resource);
@id("creates") @why("creates") permit (principal, action == Ebb::Action::"create", resource);
@id("updates") @why("updates") @ask("approvers") permit (principal, action in [Ebb::Action::"update", Ebb::Action::"write"], resource);`)
	first := p.commit(t, "first")
	p.must(t, "push", "-q", p.bare, "main", "main:other")
	p.auth = p.placeholder(t, "gh:acme/web/refs/heads/agent/**:create")
	p.must(t, "push", "-q", "origin", "main:agent/x")
	p.commit(t, "second")
	ids := map[string]string{}
	for _, branch := range []string{"main", "other"} {
		out, err := p.run(t, "push", "origin", "main:"+branch)
		if ids[branch] = contentForm.FindString(out); err == nil || ids[branch] == "" {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	const scope = "gh:acme/web/refs/heads/**:update"
	ask := func(on *brokertest.Sandbox, scope, content, delivery string) (string, broker.Kind) {
		r := on.Request(t, scope)
		r.Content, r.Delivery, r.Deferred = content, delivery, true
		_, err := p.b.Broker.Token(t.Context(), r)
		if err == nil {
			return "", ""
		}
		if pending := broker.AsError(err).Pending; pending != nil {
			return pending.RequestID, ""
		}
		return "", broker.AsError(err).Kind
	}
	approve := func(id string) {
		who := p.b.Principals[brokertest.Approver]
		req, err := p.b.Broker.Request(t.Context(), who, id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.b.Broker.Decide(t.Context(), who, id, broker.Verdict{Approve: true, Digest: req.Digest, Target: req.Target(), Present: true}); err != nil {
			t.Fatal(err)
		}
	}
	limited, _ := ask(p.s, scope, ids["main"], "")
	others, _ := ask(p.s, scope, ids["other"], "")
	all, _ := ask(p.s, scope, "", "")
	if limited == "" || others == "" || all == "" || limited == others || limited == all || others == all {
		t.Fatalf("pending requests %q, %q, %q", limited, others, all)
	}
	approve(limited)
	if id, kind := ask(p.s, scope, ids["main"], ""); id != "" || kind != "" {
		t.Errorf("the approved content: pending %q, %q", id, kind)
	}
	for _, content := range []string{"", ids["other"]} {
		if id, _ := ask(p.s, scope, content, ""); id == "" {
			t.Errorf("content %q needs no approval after that of another", content)
		}
	}
	approve(all)
	if id, kind := ask(p.s, scope, ids["other"], ""); id != "" || kind != "" {
		t.Errorf("a content after an approval without one: pending %q, %q", id, kind)
	}
	allowed := broker.ContentID(content.Facts{Kind: "gitpush", Operations: []content.Operation{{Action: "create", Details: map[string]string{"new": first, "repository": "acme/web"}, Object: "refs/heads/agent/x"}}})
	stranger := p.b.boxFor(t, "gh:**:*")
	for name, kind := range map[string]func() (string, broker.Kind){
		"of an allowed request": func() (string, broker.Kind) { return ask(p.s, scope, allowed, "") },
		"of another task":       func() (string, broker.Kind) { return ask(stranger.s, scope, ids["main"], "") },
		"delivered as a token":  func() (string, broker.Kind) { return ask(p.s, "gh:acme/web/contents:write", ids["main"], "token") },
	} {
		if id, kind := kind(); kind != broker.Invalid {
			t.Errorf("%s: pending %q, %q", name, id, kind)
		}
	}
}
