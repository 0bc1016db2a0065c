package github_test

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // git's format
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// deletion returns the body of a push that deletes refs.
func deletion(refs ...string) string {
	var out strings.Builder
	for i, ref := range refs {
		line := strings.Repeat("a", 40) + " " + strings.Repeat("0", 40) + " " + ref
		if i == 0 {
			line += "\x00 report-status delete-refs agent=git/2.39"
		}
		fmt.Fprintf(&out, "%04x%s", len(line)+4, line)
	}
	return out.String() + "0000"
}

// TestJudge: a push is covered only if the lease's scopes cover each ref by name and action, under
// the name of the repository or of a group that contains it. The error names the scopes that the
// push needs.
func TestJudge(t *testing.T) {
	t.Parallel()
	d := hubs(t)["github.com"]
	for _, tt := range []struct{ scope, repository, refs, needed string }{
		{"gh:acme/web/refs/heads/agent/**:delete", "acme/web", "refs/heads/agent/x", ""},
		{"gh:acme/web/refs/heads/agent/*:delete", "acme/web", "refs/heads/agent/x", ""},
		{"gh:acme/web/refs/**:*", "acme/web", "refs/heads/agent/x refs/tags/v1 refs/notes/commits", ""},
		{"gh:acme/web/refs/heads/x:delete gh:acme/web/refs/heads/y:delete", "acme/web", "refs/heads/x refs/heads/y", ""},
		{"gh:acme/@front/refs/heads/x:delete", "acme/web", "refs/heads/x", ""},
		{"gh:acme/@front/refs/heads/x:delete", "acme/api", "refs/heads/x", ""},
		{"gh:acme/web/contents:write", "acme/web", "refs/heads/x refs/heads/main", ""},
		{"gh:acme/web/contents:write gh:acme/api/refs/heads/x:delete", "acme/web", "refs/heads/main", ""},

		{"gh:acme/web/contents:write gh:acme/api/refs/heads/x:delete", "acme/api", "refs/heads/main", "gh:acme/api/refs/heads/main:delete"},
		{"gh:acme/web/refs/heads/agent/*:delete", "acme/web", "refs/heads/agent/x/y", "gh:acme/web/refs/heads/agent/x/y:delete"},
		{"gh:acme/web/refs/heads/agent/**:delete", "acme/web", "refs/heads/agent", "gh:acme/web/refs/heads/agent:delete"},
		{"gh:acme/web/refs/heads/x:update gh:acme/web/refs/heads/x:create gh:acme/web/refs/heads/x:force", "acme/web", "refs/heads/x", "gh:acme/web/refs/heads/x:delete"},
		{"gh:acme/web/refs/heads/x:delete", "acme/web", "refs/heads/x refs/heads/y", "gh:acme/web/refs/heads/x:delete gh:acme/web/refs/heads/y:delete"},
		{"gh:acme/web/refs/heads/x:delete", "acme/web", "refs/tags/x", "gh:acme/web/refs/tags/x:delete"},
		{"gh:acme/web/refs/heads/x:delete", "acme/web", "refs/heads/X", "gh:acme/web/refs/heads/X:delete"},
		{"gh:acme/@front/refs/heads/x:delete", "acme/web", "refs/heads/y", "gh:acme/web/refs/heads/y:delete"},
		// No scope has these names, and no request this many scopes.
		{"gh:acme/web/refs/**:delete", "acme/web", "refs/heads/a#b", "none"},
		{"gh:acme/web/refs/**:delete", "acme/web", "refs/heads/x refs/heads/a#b", "none"},
		{"gh:acme/web/refs/tags/*:delete", "acme/web", numbered("refs/heads/x", scopes.MaxScopes+1), "none"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://github.com/"+tt.repository+".git/git-receive-pack", nil)
		if err != nil {
			t.Fatal(err)
		}
		body := deletion(strings.Fields(tt.refs)...)
		req.Body = io.NopCloser(strings.NewReader(body))
		req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
		lease := provider.Target{Scopes: scopes.MustParseSet(tt.scope), Handle: secret.New("ghs_x")}
		if err := d.Inject(t.Context(), req, lease); err != nil {
			t.Errorf("%s, %s: %v", tt.scope, tt.repository, err)
			continue
		}
		facts, reply, err := d.Judge(t.Context(), req, lease)
		needed := ""
		if e, is := errors.AsType[*provider.UncoveredError](err); is {
			needed = cmp.Or(e.Needed.String(), "none")
		}
		if needed != tt.needed || (err == nil) != (tt.needed == "") || len(facts.Operations) != len(strings.Fields(tt.refs)) {
			t.Errorf("%s, %s: %+v %v, needs %q", tt.scope, tt.refs, facts, err, needed)
		}
		if _, text := reply("why"); !strings.Contains(string(text), "ng "+strings.Fields(tt.refs)[0]+" why\n") {
			t.Errorf("%s: the reply is %q", tt.scope, text)
		}
		if left, err := io.ReadAll(req.Body); err != nil || string(left) != body {
			t.Errorf("%s: the body is %q, %v", tt.scope, left, err)
		}
	}
}

// TestJudgeGroupNamedAsPattern: a scope for refs in the group acme/* covers pushes to the repositories
// of the group, and to no other one of the lease.
func TestJudgeGroupNamedAsPattern(t *testing.T) {
	t.Parallel()
	d := newRig(t, func(c *github.Config) {
		c.APIURL, c.GitURL, c.Permissions, c.Groups = "", "", map[string]string{"contents": "write"}, map[string][]string{"acme/*": {"web"}}
	}).Driver
	lease := provider.Target{Scopes: scopes.MustParseSet("gh:acme/*/refs/heads/**:delete gh:acme/api/refs/heads/x:create"), Handle: secret.New("ghs_x")}
	for push, covered := range map[string]bool{"web refs/heads/main": true, "api refs/heads/main": false} {
		repository, ref, _ := strings.Cut(push, " ")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://github.com/acme/"+repository+"/git-receive-pack", strings.NewReader(deletion(ref)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
		if err := d.Inject(t.Context(), req, lease); err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.Judge(t.Context(), req, lease); (err == nil) != covered {
			t.Errorf("%s: %v", push, err)
		}
	}
}

// TestPushesToTwoRepositoriesDiffer: an approval for the facts of a push is good for no push of the same
// commits to another repository.
func TestPushesToTwoRepositoriesDiffer(t *testing.T) {
	t.Parallel()
	d := hubs(t)["github.com"]
	lease := provider.Target{Scopes: scopes.MustParseSet("gh:acme/@front/contents:write"), Handle: secret.New("ghs_x")}
	seen := map[string]string{}
	for _, repository := range []string{"web", "web.git", "api"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://github.com/acme/"+repository+"/git-receive-pack", strings.NewReader(deletion("refs/heads/x")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
		facts, _, err := d.Judge(t.Context(), req, lease)
		if err != nil {
			t.Fatal(err)
		}
		seen[repository] = facts.Sum()
	}
	if seen["web"] != seen["web.git"] || seen["web"] == seen["api"] {
		t.Errorf("the facts are %v", seen)
	}
}

// TestJudgeGraphQL: a GraphQL document is covered only if the lease's scopes cover each of its
// fields. The error names the scopes, and the reply shows the reason as a GraphQL error.
func TestJudgeGraphQL(t *testing.T) {
	t.Parallel()
	d := hubs(t)["github.com"]
	const merge = `{"query":"mutation{mergePullRequest(input:{pullRequestId:\"PR_1\"}){clientMutationId}}"}`
	for _, tt := range []struct{ scope, body, needed string }{
		{"gh:acme/web/pull_requests:read", `{"query":"{repository(owner:\"acme\",name:\"web\"){pullRequest(number:7){title}}}"}`, ""},
		{"gh:acme/web/pull_requests:write gh:acme/web/contents:write", merge, ""},
		{"gh:acme/web/pull_requests:write", merge, "gh:acme/web/contents:write gh:acme/web/pull_requests:write"},
		{"gh:acme/web/pull_requests:write gh:acme/web/refs/heads/**:*", merge, "gh:acme/web/contents:write gh:acme/web/pull_requests:write"},
		{"gh:acme/web/contents:read", `{"query":"{repository(owner:\"acme\",name:\"web\"){issue(number:7){title}}}"}`, "gh:acme/web/issues:read gh:acme/web/metadata:read"},
		{"gh:acme/web/pull_requests:write", `{"query":"mutation{createRef(input:{repositoryId:\"R_1\",name:\"refs/heads/x\",oid:\"a\"}){clientMutationId}}"}`, "gh:acme/web/contents:write"},
		{"gh:acme/web/pull_requests:write", `{"query":"mutation{deleteProjectV2(input:{projectId:\"P_1\"}){clientMutationId}}"}`, "none"},
		{"gh:acme/web/contents:write", `{"query":"{repository(owner:\"acme\",name:\"web\"){a:tempCloneToken}}"}`, "none"},
		// Of permissions that suffice, the refusal names one that the lease has at another level.
		{"gh:acme/web/pull_requests:read", `{"query":"mutation{addComment(input:{subjectId:\"PR_1\"}){clientMutationId}}"}`, "gh:acme/web/pull_requests:write"},
		{"gh:acme/web/contents:read", `{"query":"mutation{addComment(input:{subjectId:\"PR_1\"}){clientMutationId}}"}`, "gh:acme/web/issues:write"},
		{"gh:acme/web/contents:read", `{"query":"{organization(login:\"acme\"){teams(first:1){nodes{slug}}}}"}`, "gh:@acme/members:read gh:acme/web/metadata:read"},
		// No scope has this name, and no request this many scopes.
		{"gh:acme/web/contents:read", `{"query":"{repository(owner:\"acme\",name:\"a b\"){id}}"}`, "none"},
		{repositories(33), merge, "none"},
		{"gh:acme/web/contents:write", `{"query":"{repository(owner:\"acme\",name:\"api\"){ref(qualifiedName:\"refs/heads/x\"){name}}}"}`, "gh:acme/api/contents:read gh:acme/api/metadata:read"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.github.com/graphql", strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		lease := provider.Target{Scopes: scopes.MustParseSet(tt.scope), Handle: secret.New("ghs_x")}
		if err := d.Inject(t.Context(), req, lease); err != nil {
			t.Fatal(err)
		}
		facts, reply, err := d.Judge(t.Context(), req, lease)
		needed := ""
		if e, is := errors.AsType[*provider.UncoveredError](err); is {
			needed = cmp.Or(e.Needed.String(), "none")
		}
		if needed != tt.needed || (err == nil) != (tt.needed == "") || len(facts.Operations) != 1 {
			t.Errorf("%s, %s: %+v %v, needs %q", tt.scope, tt.body, facts, err, needed)
		}
		if _, text := reply("why"); string(text) != `{"data":null,"errors":[{"type":"FORBIDDEN","message":"why"}]}` {
			t.Errorf("%s: the reply is %q", tt.scope, text)
		}
		if left, err := io.ReadAll(req.Body); err != nil || string(left) != tt.body {
			t.Errorf("%s: the body is %q, %v", tt.scope, left, err)
		}
	}
}

// repositories returns the scope pull_requests:read of n repositories. A mutation that needs two
// permissions in each of them needs more scopes than a request can have.
func repositories(n int) string {
	return strings.ReplaceAll(numbered("gh:acme/r", n), " ", "/pull_requests:read ") + "/pull_requests:read"
}

// numbered returns n words that begin with prefix.
func numbered(prefix string, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint(prefix, i)
	}
	return strings.Join(words, " ")
}

// TestJudgeWithoutReport: a client that reads no report of its refs gets an HTTP error.
func TestJudgeWithoutReport(t *testing.T) {
	t.Parallel()
	d := hubs(t)["github.com"]
	body := fmt.Sprintf("%04x%s%s", 4+40+1+40+1+len("refs/heads/x")+1, strings.Repeat("a", 40)+" "+strings.Repeat("0", 40)+" refs/heads/x", "\x000000")
	req := httptest.NewRequest(http.MethodPost, "https://github.com/acme/web/git-receive-pack", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	_, reply, err := d.Judge(t.Context(), req, provider.Target{Scopes: scopes.MustParseSet("gh:acme/web/refs/heads/y:delete"), Handle: secret.New("ghs_x")})
	if !errors.As(err, new(*provider.UncoveredError)) || reply != nil {
		t.Errorf("reply %t, %v", reply != nil, err)
	}
}

// TestJudgeAncestry: an update whose commits GitHub has already is a fast-forward only if GitHub's
// comparison names the old commit as the merge base. Any other answer is no proof. ebb asks at most
// eight times for one push.
//
//ebb:invariant I6 An update of a branch counts as a fast-forward only with a proof, from the commits of the push or from GitHub
func TestJudgeAncestry(t *testing.T) {
	t.Parallel()
	old, other := strings.Repeat("a", 40), strings.Repeat("c", 40)
	for name, tt := range map[string]struct {
		status  int
		answer  string
		refs    int
		updates int // -1 = an error
	}{
		"an ancestor":         {200, `{"merge_base_commit":{"sha":"` + old + `"}}`, 1, 1},
		"another merge base":  {200, `{"merge_base_commit":{"sha":"` + other + `"}}`, 1, 0},
		"no merge base":       {200, `{}`, 1, 0},
		"an unknown commit":   {404, `{"merge_base_commit":{"sha":"` + old + `"}}`, 1, 0},
		"a status of success": {202, `{"merge_base_commit":{"sha":"` + old + `"}}`, 1, -1},
		"a failure":           {500, `{"merge_base_commit":{"sha":"` + old + `"}}`, 1, -1},
		"another form":        {200, `[]`, 1, -1},
		"too many":            {200, `{"merge_base_commit":{"sha":"` + old + `"}}`, 10, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			hub := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1); r.URL.Path != "/repos/acme/web/compare/"+old+"..."+strings.Repeat("b", 40) || r.Header.Get("Authorization") != "Bearer ghs_x" {
					t.Errorf("%s %v", r.URL, r.Header)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.answer)
			}))
			defer hub.Close()
			ca := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hub.Certificate().Raw}), 0o600); err != nil {
				t.Fatal(err)
			}
			d := newRig(t, func(c *github.Config) { c.APIURL, c.GitURL, c.CAFile = hub.URL, "https://git.example.com", ca }).Driver
			req := httptest.NewRequest(http.MethodPost, "https://git.example.com/acme/web/git-receive-pack", strings.NewReader(update(tt.refs)))
			req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
			facts, _, err := d.Judge(t.Context(), req, provider.Target{Scopes: scopes.MustParseSet("gh:acme/web/refs/**:update gh:acme/web/refs/**:force"), Handle: secret.New("ghs_x")})
			if tt.updates < 0 {
				if err == nil {
					t.Errorf("%+v", facts)
				}
				return
			}
			updates := 0
			for _, o := range facts.Operations {
				if o.Action == "update" {
					updates++
				}
			}
			if err != nil || len(facts.Operations) != tt.refs || updates != tt.updates || asked.Load() != int64(min(tt.refs, 8)) {
				t.Errorf("%+v, %v; asked %d times", facts, err, asked.Load())
			}
		})
	}
}

// update returns the body of a push that updates refs to a commit which its pack does not contain.
func update(refs int) string {
	var out strings.Builder
	for i, ref := range strings.Fields(numbered("refs/heads/x", refs)) {
		line := strings.Repeat("a", 40) + " " + strings.Repeat("b", 40) + " " + ref
		if i == 0 {
			line += "\x00 report-status agent=git/2.39"
		}
		fmt.Fprintf(&out, "%04x%s", len(line)+4, line)
	}
	pack := "PACK\x00\x00\x00\x02\x00\x00\x00\x00"
	sum := sha1.Sum([]byte(pack)) //nolint:gosec // git's format
	return out.String() + "0000" + pack + string(sum[:])
}

// TestJudged: a credential for refs never leaves ebb, whatever else the request asks for.
func TestJudged(t *testing.T) {
	t.Parallel()
	d := hubs(t)["github.com"]
	for scope, want := range map[string]bool{
		"gh:acme/web/refs/heads/x:create": true, "gh:acme/web/contents:write gh:acme/api/refs/heads/x:create": true,
		"gh:acme/web/contents:write": false, "gh:@acme/members:read gh:acme/web/metadata:read": false,
	} {
		if got := d.Judged(scopes.MustParseSet(scope)); got != want {
			t.Errorf("%s: %v", scope, got)
		}
	}
}
