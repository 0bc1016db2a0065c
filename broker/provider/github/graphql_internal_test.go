package github

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/content/graphql"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// document reads a body that is well formed.
func document(t testing.TB, body string) *graphql.Document {
	t.Helper()
	r := httptest.NewRequest("POST", "https://api.github.com/graphql", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	d, err := graphql.Read(r)
	if err != nil {
		t.Fatalf("%v: %.300s", err, body)
	}
	return d
}

// written is a need as the tests write it.
func written(n need) string {
	where := n.repository
	if n.owner != "" {
		where = "@" + n.owner
	}
	if where == "" {
		where = "*"
	}
	return where + "/" + strings.Join(n.permissions, "|") + ":" + n.level
}

// recorded is a request of the real gh, for one of its commands.
type recorded struct {
	GH   string `json:"gh"`
	Body string `json:"body"`
}

// recordings are the requests of the versions of gh in testdata/gh.
func recordings(t testing.TB) map[string][]recorded {
	t.Helper()
	files, err := filepath.Glob("testdata/gh/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	out := map[string][]recorded{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
			var r recorded
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
			out[name] = append(out[name], r)
		}
	}
	return out
}

// TestGraphQLOfGH: what each command of the real gh needs, by testdata/gh/needs.txt. "denied" means
// that no lease allows it.
func TestGraphQLOfGH(t *testing.T) {
	t.Parallel()
	var got []string
	for version, all := range recordings(t) {
		needs := map[string][]string{}
		for _, r := range all {
			list, err := graphQLNeeds(document(t, r.Body))
			for _, n := range list {
				needs[r.GH] = append(needs[r.GH], written(n))
			}
			if err != nil {
				needs[r.GH] = append(needs[r.GH], "denied")
			}
		}
		for command, list := range needs {
			slices.Sort(list)
			got = append(got, fmt.Sprintf("%s %s = %s", version, command, strings.Join(slices.Compact(list), " ")))
		}
	}
	slices.Sort(got)
	want, err := os.ReadFile("testdata/gh/needs.txt")
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(got, "\n") + "\n"; text != string(want) {
		t.Errorf("testdata/gh/needs.txt differs; got\n%s", text)
	}
}

// TestGraphQLNeeds: what documents need, beyond those of gh.
//
//ebb:invariant I6 The GitHub provider judges GraphQL requests by every field and mutation, and refuses those that its tables do not list
//ebb:invariant I6 A GraphQL request for GitHub that reads or writes commits, refs or files needs the permission contents in the lease's scopes, not in its token alone
func TestGraphQLNeeds(t *testing.T) {
	t.Parallel()
	const repository = `repository(owner:"acme",name:"web")`
	for _, tt := range []struct{ query, want string }{
		{`{` + repository + `{id}}`, "acme/web/metadata:read"},
		{`query($o:String="acme",$n:String="web"){x:repository(owner:$o,name:$n){id}}`, "acme/web/metadata:read"},
		{`{a:` + repository + `{id} b:repository(owner:"acme",name:"api"){id}}`, "acme/web/metadata:read acme/api/metadata:read"},
		{`{repository(owner:"Acme",name:"web"){id}}`, "Acme/web/metadata:read"},
		{`{repository(owner:"acme/web",name:"web"){id}}`, "acme/web/web/metadata:read"},
		{`{repository(owner:"",name:"acme/web/x"){id}}`, "/acme/web/x/metadata:read"},
		{`{repository(owner:acme,name:"web"){id}}`, "/web/metadata:read"},
		{`{repository{id}}`, "//metadata:read"},
		{`{` + repository + `{pullRequest(number:1){title}}}`, "acme/web/metadata:read acme/web/pull_requests:read"},
		{`{` + repository + `{x:pullRequest(number:1)@skip(if:true){title}}}`, "acme/web/metadata:read acme/web/pull_requests:read"},
		{`{` + repository + `{...F}} fragment F on Repository{issues(first:1){edges{cursor node{title}}}}`, "acme/web/metadata:read acme/web/issues:read"},
		{`{` + repository + `{issueOrPullRequest(number:1){...on Issue{id} ...on PullRequest{id}}}}`, "acme/web/metadata:read acme/web/issues|pull_requests:read"},
		{`{` + repository + `{labels(first:1){nodes{name}}}}`, "acme/web/metadata:read acme/web/issues|pull_requests:read"},
		{`{` + repository + `{assignableUsers(first:1){nodes{login}}}}`, "acme/web/metadata:read acme/web/issues|pull_requests:read"},
		{`{` + repository + `{defaultBranchRef{name}}}`, "acme/web/metadata:read"},
		{`{viewer{login}}`, "*/metadata:read"},
		{`{rateLimit{remaining}}`, "*/metadata:read"},
		{`{__schema{types{name fields{name}}} __type(name:"Repository"){name}}`, "*/metadata:read"},
		{`{__typename}`, "*/metadata:read"},
		{`{organization(login:"acme"){id}}`, "@acme/metadata:read */metadata:read"},
		{`{organization(login:"acme"){teams(first:1){nodes{slug}}}}`, "@acme/metadata:read */metadata:read */members:read"},
		{`{user(login:"monalisa"){id}}`, "*/metadata:read"},

		// By a node id.
		{`{node(id:"x"){id ...on Repository{nameWithOwner}}}`, "*/metadata:read"},
		{`{node(id:"x"){...on PullRequestReview{body}}}`, "*/metadata:read */pull_requests:read"},
		{`{nodes(ids:["x"]){...on IssueComment{body}}}`, "*/metadata:read */issues|pull_requests:read"},
		{`{node(id:"x"){...on CheckRun{name}}}`, "*/metadata:read */checks:read"},
		{`{node(id:"x"){...on Issue{linkedBranches(first:1){nodes{ref{name}}}}}}`, "*/metadata:read */issues|pull_requests:read */issues:read"},

		// Contents, by every way to them.
		{`{` + repository + `{object(expression:"HEAD:x"){...on Blob{text}}}}`, "acme/web/metadata:read acme/web/contents:read"},
		{`{` + repository + `{object(oid:"x"){oid}}}`, "acme/web/metadata:read acme/web/contents:read"},
		{`{` + repository + `{ref(qualifiedName:"x"){name}}}`, "acme/web/metadata:read acme/web/contents:read"},
		{`{` + repository + `{refs(first:1,refPrefix:"refs/heads/"){totalCount}}}`, "acme/web/metadata:read acme/web/contents:read"},
		{`{` + repository + `{defaultBranchRef{target{oid}}}}`, "acme/web/metadata:read acme/web/contents:read"},
		{`{` + repository + `{defaultBranchRef{compare(headRef:"x"){aheadBy}}}}`, "acme/web/metadata:read acme/web/contents:read"},
		{`{` + repository + `{pullRequest(number:1){baseRef{target{...on Commit{oid}}}}}}`, "acme/web/metadata:read acme/web/pull_requests:read acme/web/contents:read"},
		{`{` + repository + `{pullRequest(number:1){mergeCommit{oid}}}}`, "acme/web/metadata:read acme/web/pull_requests:read"},
		{`{` + repository + `{pullRequest(number:1){mergeCommit{tree{entries{name}}}}}}`, "acme/web/metadata:read acme/web/pull_requests:read acme/web/contents:read"},
		{`{` + repository + `{pullRequest(number:1){mergeCommit{parents(first:1){nodes{oid}}}}}}`, "acme/web/metadata:read acme/web/pull_requests:read acme/web/contents:read"},
		{`{` + repository + `{pullRequest(number:1){commits(first:1){nodes{commit{file(path:"x"){object{...on Blob{text}}}}}}}}}`, "acme/web/metadata:read acme/web/pull_requests:read acme/web/contents:read"},
		{`{` + repository + `{issue(number:1){linkedBranches(first:1){nodes{ref{target{oid}}}}}}}`, "acme/web/metadata:read acme/web/issues:read acme/web/contents:read"},
		{`{` + repository + `{releases(first:1){nodes{name}}}}`, "acme/web/metadata:read acme/web/contents:read"},
		{`{` + repository + `{pullRequestTemplates{body}}}`, "acme/web/metadata:read acme/web/contents:read"},
		{`{node(id:"x"){...on Blob{text}}}`, "*/metadata:read */contents:read"},
		{`{node(id:"x"){...on Ref{name}}}`, "*/metadata:read */contents:read"},
		{`{node(id:"x"){...on Commit{message}}}`, "*/metadata:read */contents:read"},
		{`{node(id:"x"){...on Repository{defaultBranchRef{target{oid}}}}}`, "*/metadata:read */contents:read"},
		{`mutation{createPullRequest(input:{}){pullRequest{headRef{target{oid}}}}}`, "*/pull_requests:write */pull_requests:read */contents:read"},

		// Searches.
		{`{search(query:"repo:acme/web is:pr x",type:ISSUE,first:1){issueCount}}`, "acme/web/metadata:read"},
		{`{search(query:"is:pr repo:acme/web repo:acme/api",type:ISSUE,first:1){nodes{...on PullRequest{title}}}}`, "acme/web/metadata:read acme/web/pull_requests:read acme/api/metadata:read acme/api/pull_requests:read"},
		{`{search(query:"repo:acme/web label:\"good issue\" author:@me",type:ISSUE,first:1){edges{node{...on Issue{title}}}}}`, "acme/web/metadata:read acme/web/issues:read"},
		{`{search(query:"repo:acme/web,other/x",type:ISSUE,first:1){issueCount}}`, "acme/web,other/x/metadata:read"},

		// Mutations.
		{`mutation{__typename addComment(input:{}){clientMutationId}}`, "*/issues|pull_requests:write"},
		{`mutation{mergePullRequest(input:{}){clientMutationId}}`, "*/contents:write */pull_requests:write"},
		{`mutation{enablePullRequestAutoMerge(input:{}){clientMutationId}}`, "*/contents:write */pull_requests:write"},
		{`mutation{updatePullRequestBranch(input:{}){clientMutationId}}`, "*/contents:write */pull_requests:write"},
		{`mutation{revertPullRequest(input:{}){clientMutationId}}`, "*/contents:write */pull_requests:write"},
		{`mutation{createLinkedBranch(input:{}){clientMutationId}}`, "*/contents:write */issues:write"},
		{`mutation{createCommitOnBranch(input:{}){commit{oid}}}`, "*/contents:write */contents:read"},
		{`mutation{createRef(input:{}){clientMutationId}}`, "*/contents:write"},
		{`mutation{updateRef(input:{}){clientMutationId}}`, "*/contents:write"},
		{`mutation{deleteRef(input:{}){clientMutationId}}`, "*/contents:write"},
		{`mutation{mergeBranch(input:{}){clientMutationId}}`, "*/contents:write"},
		{`mutation{a:closeIssue(input:{}){clientMutationId} b:mergePullRequest(input:{}){clientMutationId}}`, "*/issues:write */contents:write */pull_requests:write"},
		{`mutation{...F} fragment F on Mutation{closeIssue(input:{}){...{issue{id}}}}`, "*/issues:write */issues:read"},
	} {
		all, err := graphQLNeeds(document(t, body(t, tt.query)))
		if err != nil {
			t.Errorf("%s: %v", tt.query, err)
			continue
		}
		var got []string
		for _, n := range all {
			got = append(got, written(n))
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.query, text, tt.want)
		}
	}
}

func body(t testing.TB, query string) string {
	t.Helper()
	b, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestGraphQLDenied: documents that no lease allows.
func TestGraphQLDenied(t *testing.T) {
	t.Parallel()
	const repository = `repository(owner:"acme",name:"web")`
	for _, query := range []string{
		// Mutations without a row.
		`mutation{deleteIssue(input:{}){clientMutationId}}`, `mutation{transferIssue(input:{}){clientMutationId}}`, `mutation{createRepository(input:{}){clientMutationId}}`,
		`mutation{updateRefs(input:{}){clientMutationId}}`, `mutation{updateBranchProtectionRule(input:{}){clientMutationId}}`, `mutation{archiveRepository(input:{}){clientMutationId}}`,
		`mutation{enqueuePullRequest(input:{}){clientMutationId}}`, `mutation{createDeployment(input:{}){clientMutationId}}`, `mutation{approveDeployments(input:{}){clientMutationId}}`,
		`mutation{addComment:createRepository(input:{}){clientMutationId}}`, `mutation{AddComment(input:{}){clientMutationId}}`, `mutation{addComment(input:{}){clientMutationId} x(input:{}){y}}`,
		`mutation{viewer{login}}`, `mutation{__schema{types{name}}}`,
		// Fields of the root without a row.
		`{relay{viewer{login}}}`, `{repositoryOwner(login:"acme"){repositories(first:1){nodes{name}}}}`, `{resource(url:"x"){url}}`, `{enterprise(slug:"x"){id}}`, `{meta{gitIpAddresses}}`, `{id}`,
		`{addComment(input:{}){clientMutationId}}`, `{...on Node{id}}`,
		// Credentials, and ways to other repositories.
		`{` + repository + `{tempCloneToken}}`, `{node(id:"x"){...on Repository{tempCloneToken}}}`, `{` + repository + `{object(oid:"x"){...on Commit{zipballUrl}}}}`,
		`{` + repository + `{owner{repositories(first:1){nodes{name}}}}}`, `{` + repository + `{owner{...on Organization{repository(name:"x"){id}}}}}`, `{` + repository + `{owner{...on User{repositories(first:1){totalCount}}}}}`,
		`{` + repository + `{parent{pullRequests(first:1){totalCount}}}}`, `{` + repository + `{parent{...on Repository{object(oid:"x"){oid}}}}}`, `{` + repository + `{parent{...F}}} fragment F on Repository{issues(first:1){totalCount}}`,
		`{` + repository + `{pullRequest(number:1){headRepository{object(oid:"x"){oid}}}}}`, `{` + repository + `{pullRequest(number:1){repository{...on Repository{refs(first:1,refPrefix:"x"){totalCount}}}}}}`,
		`{node(id:"x"){...on Repository{issues(first:1){totalCount}}}}`, `{node(id:"x"){...on Query{repository(owner:"a",name:"b"){id}}}}`, `{node(id:"x"){...on Query{viewer{login}}}}`, `{node(id:"x"){...on Mutation{addComment(input:{}){clientMutationId}}}}`, `{node(id:"x"){...on Mutation{clientMutationId}}}`,
		`{` + repository + `{forks(first:1){nodes{name}}}}`, `{viewer{repositories(first:1){nodes{name}}}}`, `{user(login:"x"){gists(first:1){nodes{files{text}}}}}`, `{organization(login:"acme"){repositories(first:1){totalCount}}}`,
		`{node(id:"x"){...on Gist{files{text}}}}`, `{node(id:"x"){...on Comment{body}}}`, `{node(id:"x"){...on DeployKey{key}}}`, `{node(id:"x"){...on linked{id}}}`,
		// Fields that do not fit their type.
		`{` + repository + `}`, `{` + repository + `{id{x}}}`, `{` + repository + `{pullRequest(number:1)}}`, `{` + repository + `{pullRequests(first:1){title}}}`, `{` + repository + `{pullRequests(first:1){...on PullRequest{title}}}}`, `{` + repository + `{pullRequests(first:1){...on PullRequest{totalCount}}}}`,
		`{` + repository + `{pullRequests(first:1){...on PullRequestConnection{totalCount}}}}`, `{` + repository + `{pullRequest(number:1){nodes{title}}}}`, `{` + repository + `{__schema{types{name}}}}`, `{` + repository + `{unknown}}`,
		`{` + repository + `{issueOrPullRequest(number:1){title}}}`, `{node(id:"x"){title}}`, `{rateLimit{resetAt{x}}}`,
		`{organization{id}}`, `{organization(login:""){id}}`, `{organization(login:acme){id}}`,
		// Searches that are not limited.
		`{search(query:"is:pr",type:ISSUE,first:1){issueCount}}`, `{search(type:ISSUE,first:1){issueCount}}`, `{search(query:["repo:acme/web"],type:ISSUE,first:1){issueCount}}`,
		`{search(query:"repo:acme/web OR is:public",type:ISSUE,first:1){issueCount}}`, `{search(query:"(repo:acme/web)",type:ISSUE,first:1){issueCount}}`, `{search(query:"NOT repo:acme/web",type:ISSUE,first:1){issueCount}}`,
		`{search(query:"-repo:acme/web",type:ISSUE,first:1){issueCount}}`, `{search(query:"Repo:acme/web",type:ISSUE,first:1){issueCount}}`, `{search(query:"repo:acme/web Repo:x/y",type:ISSUE,first:1){issueCount}}`,
		`{search(query:"\"repo:acme/web\"",type:ISSUE,first:1){issueCount}}`, `{search(query:"x\"repo:acme/web",type:ISSUE,first:1){issueCount}}`, `{search(query:"repo:\"acme/web\"",type:ISSUE,first:1){issueCount}}`,
		`{search(query:"\"x\"repo:acme/web",type:ISSUE,first:1){issueCount}}`, `{search(query:"repo:acme/web\"x\"",type:ISSUE,first:1){issueCount}}`, `{search(query:"repo:acme/web \\\"x repo:x/y\\\"",type:ISSUE,first:1){issueCount}}`,
		`{search(query:"repo:acme/web org:other",type:ISSUE,first:1){issueCount}}`, `{search(query:"repo:acme/web USER:other",type:ISSUE,first:1){issueCount}}`, `{search(query:"repo: acme/web",type:ISSUE,first:1){issueCount}}`,
		`{search(query:"repo:acme/web -repo:x/y",type:ISSUE,first:1){issueCount}}`, `{search(query:"repo:acme/web -org:other",type:ISSUE,first:1){issueCount}}`, `{search(query:"repo:acme/web or is:public",type:ISSUE,first:1){issueCount}}`,
		`{search(query:"` + strings.Repeat(`x \"\" `, 50_000) + `",type:ISSUE,first:1){issueCount}}`, `{search(query:"` + manyRepositories() + `",type:ISSUE,first:1){issueCount}}`,
	} {
		if all, err := graphQLNeeds(document(t, body(t, query))); !errors.Is(err, provider.ErrElsewhere) {
			t.Errorf("%.300s: %v, %v", query, all, err)
		}
	}
}

func manyRepositories() string {
	var b strings.Builder
	for i := range 21 {
		fmt.Fprintf(&b, " repo:acme/web%d", i)
	}
	return b.String()
}

// TestGraphQLContents: each field that leads to a commit, a ref or a file needs contents, but for
// the names and messages that a pull request or an issue shows anyway. What these lead to needs
// contents again.
func TestGraphQLContents(t *testing.T) {
	t.Parallel()
	shown := []string{
		"Repository.defaultBranchRef", "linkedRepository.defaultBranchRef", "LinkedBranch.ref", "PullRequest.baseRef", "PullRequest.headRef", "PullRequest.mergeCommit", "PullRequest.potentialMergeCommit",
		"PullRequestCommit.commit", "PullRequestReview.commit", "PullRequestReviewComment.commit", "PullRequestReviewComment.originalCommit",
	}
	seen := 0
	for name, typ := range graphQLSchema {
		for field, f := range typ.fields {
			if f.of != "" && !strings.HasPrefix(f.of, "__") && graphQLSchema[f.of].fields == nil {
				t.Errorf("%s.%s: no type %s", name, field, f.of)
			}
			if need := graphQLSchema[f.of].need; f.of == "" || !slices.Contains(need, "contents") {
				continue
			}
			at := name + "." + field
			if slices.Contains(shown, at) {
				seen++
				continue
			}
			if !slices.Equal(f.need, []string{"contents"}) {
				t.Errorf("%s needs %v", at, f.need)
			}
		}
		for _, need := range typ.need {
			if permissions[need].levels == nil {
				t.Errorf("%s needs %q, which is no permission", name, need)
			}
		}
	}
	if seen != len(shown) {
		t.Errorf("%d of %d exceptions are fields", seen, len(shown))
	}
	for name, all := range graphQLWrites {
		if len(all) == 0 {
			t.Errorf("%s needs nothing", name)
		}
		for _, anyOne := range all {
			for _, need := range anyOne {
				if !slices.Contains(permissions[need].levels, "write") {
					t.Errorf("%s needs %q, which is no permission to write", name, need)
				}
			}
		}
	}
}

// TestGraphQLNeedMet: an ask meets a need by the repositories, owner and permissions of its scopes,
// never by those that only its token has. A need without a repository is met in all of them.
//
//ebb:invariant I5 A GraphQL request is judged by the lease's scopes, not by the wider permissions of its token
func TestGraphQLNeedMet(t *testing.T) {
	t.Parallel()
	one := "gh:acme/web/pull_requests:write gh:acme/web/contents:read gh:acme/web/refs/heads/agent/**:update gh:@acme/members:read"
	two := "gh:acme/web/contents:write gh:acme/api/refs/heads/**:*"
	for _, tt := range []struct {
		scopes string
		n      need
		want   bool
	}{
		{one, need{"acme/web", "", []string{metadata}, "read"}, true},
		{one, need{"", "acme", []string{metadata}, "read"}, true},
		{one, need{"", "other", []string{metadata}, "read"}, false},
		{one, need{"Acme/web", "", []string{metadata}, "read"}, false},
		{one, need{"acme/api", "", []string{"pull_requests"}, "read"}, false},
		{one, need{"", "", []string{metadata}, "write"}, false},
		{one, need{"", "", []string{"contents"}, "read"}, true},
		{one, need{"", "", []string{"contents"}, "write"}, false},
		{one, need{"acme/web", "", []string{"contents"}, "write"}, false},
		{one, need{"", "", []string{"issues", "pull_requests"}, "write"}, true},
		{one, need{"", "", []string{"issues"}, "read"}, false},
		{one, need{"", "", []string{"members"}, "read"}, true},
		{one, need{"", "", nil, "read"}, false},
		{two, need{"acme/web", "", []string{"contents"}, "write"}, true},
		{two, need{"acme/api", "", []string{"contents"}, "write"}, false},
		{two, need{"acme/api", "", []string{"contents"}, "read"}, false},
		{two, need{"", "", []string{"contents"}, "write"}, false},
	} {
		c := Config{Installations: map[string]int64{"acme": 11}, Permissions: map[string]string{"contents": "write", "pull_requests": "write", "members": "read"}}
		a, err := c.read(scopes.MustParseSet(tt.scopes))
		if err != nil {
			t.Fatal(err)
		}
		if got := tt.n.met(a); got != tt.want {
			t.Errorf("%s by %s: %v", written(tt.n), tt.scopes, got)
		}
	}
}

// FuzzGraphQLNeeds judges arbitrary documents. It never panics, and a document that is allowed has
// a need.
func FuzzGraphQLNeeds(f *testing.F) {
	for _, all := range recordings(f) {
		for _, r := range all {
			f.Add(r.Body)
		}
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest("POST", "https://api.github.com/graphql", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		d, err := graphql.Read(r)
		if err != nil {
			return
		}
		needs, err := graphQLNeeds(d)
		if err != nil && !errors.Is(err, provider.ErrElsewhere) {
			t.Fatal(err)
		}
		if err == nil && len(needs) == 0 && d.Fields[0].Name != "__typename" {
			t.Fatalf("%s needs nothing", body)
		}
	})
}

// BenchmarkGraphQLOfGH reads and judges the requests of gh, on average one an iteration.
func BenchmarkGraphQLOfGH(b *testing.B) {
	all := recordings(b)["2.60"]
	r := httptest.NewRequest("POST", "https://api.github.com/graphql", nil)
	r.Header.Set("Content-Type", "application/json")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Body = io.NopCloser(strings.NewReader(all[i%len(all)].Body))
		d, err := graphql.Read(r)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = graphQLNeeds(d)
	}
}

// TestGraphQLFactsNameTheObject: the facts of a mutation name what it changes, which is all that an
// approver knows of its arguments.
func TestGraphQLFactsNameTheObject(t *testing.T) {
	t.Parallel()
	for input, want := range map[string][]string{
		`updateRef(input:{refId:"REF_1",oid:"abc",force:true})`:      {"input.refId=REF_1", "input.oid=abc", "input.force=true"},
		`deleteRef(input:{refId:"REF_1"})`:                           {"input.refId=REF_1"},
		`createRef(input:{repositoryId:"R",name:"refs/heads/x"})`:    {"input.repositoryId=R", "input.name=refs/heads/x"},
		`mergeBranch(input:{repositoryId:"R",base:"main",head:"x"})`: {"input.base=main", "input.head=x"},
		`createCommitOnBranch(input:{branch:{repositoryNameWithOwner:"acme/web",branchName:"main"},expectedHeadOid:"abc"})`: {
			"input.branch.repositoryNameWithOwner=acme/web", "input.branch.branchName=main", "input.expectedHeadOid=abc"},
		`updateIssue(input:{id:"I_1"})`:                                            {"input.id=I_1"},
		`deleteIssueComment(input:{id:"IC_1"})`:                                    {"input.id=IC_1"},
		`lockLockable(input:{lockableId:"PR_1"})`:                                  {"input.lockableId=PR_1"},
		`resolveReviewThread(input:{threadId:"T_1"})`:                              {"input.threadId=T_1"},
		`addPullRequestReview(input:{pullRequestId:"PR_1",event:APPROVE})`:         {"input.pullRequestId=PR_1", "input.event=APPROVE"},
		`dismissPullRequestReview(input:{pullRequestReviewId:"V_1"})`:              {"input.pullRequestReviewId=V_1"},
		`updatePullRequestReviewComment(input:{pullRequestReviewCommentId:"C_1"})`: {"input.pullRequestReviewCommentId=C_1"},
	} {
		body, err := json.Marshal(map[string]string{"query": "mutation{" + input + "{clientMutationId}}"})
		if err != nil {
			t.Fatal(err)
		}
		details := document(t, string(body)).Facts(graphQLFacts...).Operations[0].Details
		for _, w := range want {
			if name, value, _ := strings.Cut(w, "="); details[name] != value {
				t.Errorf("%s: the facts lack %s: %v", input, w, details)
			}
		}
	}
}
