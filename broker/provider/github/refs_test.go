package github_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
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
		facts, err := d.Judge(t.Context(), req, lease)
		needed := ""
		if e, is := errors.AsType[*provider.UncoveredError](err); is {
			needed = e.Needed.String()
			if reply := e.Reply("why"); !strings.Contains(string(reply.Body), "ng "+strings.Fields(tt.refs)[0]+" why\n") {
				t.Errorf("%s: the reply is %q", tt.scope, reply.Body)
			}
		}
		if needed != tt.needed || (err == nil) != (tt.needed == "") || len(facts.Operations) != len(strings.Fields(tt.refs)) {
			t.Errorf("%s, %s: %+v %v, needs %q", tt.scope, tt.refs, facts, err, needed)
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
		if _, err := d.Judge(t.Context(), req, lease); (err == nil) != covered {
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
		facts, err := d.Judge(t.Context(), req, lease)
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
		facts, err := d.Judge(t.Context(), req, lease)
		needed := ""
		if e, is := errors.AsType[*provider.UncoveredError](err); is {
			needed = cmp.Or(e.Needed.String(), "none")
			if reply := e.Reply("why"); string(reply.Body) != `{"data":null,"errors":[{"type":"FORBIDDEN","message":"why"}]}` {
				t.Errorf("%s: the reply is %q", tt.scope, reply.Body)
			}
		}
		if needed != tt.needed || (err == nil) != (tt.needed == "") || len(facts.Operations) != 1 {
			t.Errorf("%s, %s: %+v %v, needs %q", tt.scope, tt.body, facts, err, needed)
		}
		if left, err := io.ReadAll(req.Body); err != nil || string(left) != tt.body {
			t.Errorf("%s: the body is %q, %v", tt.scope, left, err)
		}
	}
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
