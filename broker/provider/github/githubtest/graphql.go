package githubtest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/broker/egress/content/graphql"
)

// conversation is an issue or a pull request.
type conversation struct {
	repo        *Repository
	number      int
	pull        bool
	title, body string
	state       string // OPEN, CLOSED or MERGED
	base, head  string // branches of a pull request
	comments    []string
}

// id returns the node id, which has GitHub's prefixes but not its form.
func (c *conversation) id() string {
	if c.pull {
		return "PR_" + strconv.Itoa(c.number)
	}
	return "I_" + strconv.Itoa(c.number)
}

func (c *conversation) url() string {
	kind := "issues"
	if c.pull {
		kind = "pull"
	}
	return fmt.Sprintf("https://github.com/%s/%s/%s/%d", c.repo.Owner, c.repo.Name, kind, c.number)
}

// answerGraphQL answers the GraphQL requests of gh for `gh pr create|view|list|comment|edit|close|reopen|merge`
// and `gh issue create|view|list|comment|close|reopen`. Fields that the server does not have are
// null. It judges a token like GitHub: an object of another repository is not found, and one that a
// permission is missing for is forbidden, with the status 200.
func answerGraphQL(s *Server, r request, t *token) reply {
	doc, err := graphql.Read(r.Request)
	if err != nil {
		return say(http.StatusBadRequest, "Problems parsing JSON")
	}
	data, problems := map[string]any{}, []any{}
	for _, root := range doc.Fields {
		g := resolver{s, t, root}
		value, problem := g.resolve(doc.Action == "mutation")
		if problem != nil {
			problem["path"] = []string{root.Key}
			problems = append(problems, problem)
		}
		data[root.Key] = selected(value, root.Fields)
	}
	body := map[string]any{"data": data}
	if len(problems) > 0 {
		body["errors"] = problems
	}
	return reply{status: http.StatusOK, body: body}
}

// selected returns the selected fields of a value. A type condition on another type than that of
// the object leaves a field out; objects without __typename have every type.
func selected(value any, fields []graphql.Field) any {
	switch value := value.(type) {
	case []any:
		out := []any{}
		for _, v := range value {
			out = append(out, selected(v, fields))
		}
		return out
	case map[string]any:
		out, inner := map[string]any{}, map[string][]graphql.Field{}
		for _, f := range fields {
			if typ, has := value["__typename"]; has && f.On != "" && f.On != "Node" && f.On != "Actor" && f.On != typ {
				continue
			}
			inner[f.Key] = append(inner[f.Key], f.Fields...)
			out[f.Key] = selected(value[f.Name], inner[f.Key])
		}
		return out
	}
	return value
}

// resolver resolves one field of the root. The caller has the lock of s.
type resolver struct {
	s    *Server
	t    *token
	root graphql.Field
}

func notFound(what string) map[string]any {
	return map[string]any{"type": "NOT_FOUND", "message": "Could not resolve to a " + what + "."}
}

func (g resolver) resolve(mutation bool) (any, map[string]any) {
	switch {
	case mutation:
		return g.mutate()
	case g.root.Name == "repository":
		owner, name := g.text("owner"), g.text("name")
		repo := g.s.repos.named(owner, name)
		if repo == nil || !repo.Public && !slices.Contains(g.t.repos, repo.ID) {
			return nil, notFound("Repository with the name '" + owner + "/" + name + "'")
		}
		return g.repository(repo), nil
	case g.root.Name == "node":
		if c := g.conversation("id"); c != nil {
			return g.fields(c), nil
		}
		return nil, notFound("node with the global id of '" + g.text("id") + "'")
	case g.root.Name == "viewer":
		return actor(), nil
	case g.root.Name == "__type":
		return map[string]any{"fields": []any{}}, nil
	}
	return nil, map[string]any{"type": "FORBIDDEN", "message": "Resource not accessible by integration"}
}

func (g resolver) text(path string) string {
	text, _ := g.root.Argument(path).(string)
	return text
}

// conversation returns the one whose id an argument has; nil if the token's repositories have none.
func (g resolver) conversation(path string) *conversation {
	i := slices.IndexFunc(g.s.conversations, func(c *conversation) bool { return c.id() == g.text(path) })
	if i < 0 || !slices.Contains(g.t.repos, g.s.conversations[i].repo.ID) {
		return nil
	}
	return g.s.conversations[i]
}

// mutations are those that the server has: the argument with the id of the object, and the
// permissions that it needs, all of them.
var mutations = map[string]struct {
	id    string
	needs []string
}{
	"createPullRequest": {"input.repositoryId", []string{"pull_requests"}}, "createIssue": {"input.repositoryId", []string{"issues"}},
	"updatePullRequest": {"input.pullRequestId", []string{"pull_requests"}}, "mergePullRequest": {"input.pullRequestId", []string{"pull_requests", "contents"}},
	"closePullRequest": {"input.pullRequestId", []string{"pull_requests"}}, "reopenPullRequest": {"input.pullRequestId", []string{"pull_requests"}},
	"closeIssue": {"input.issueId", []string{"issues"}}, "reopenIssue": {"input.issueId", []string{"issues"}}, "addComment": {"input.subjectId", nil},
}

func (g resolver) mutate() (any, map[string]any) {
	m, known := mutations[g.root.Name]
	c := g.conversation(m.id)
	creates := strings.HasPrefix(g.root.Name, "create")
	if creates {
		i := slices.IndexFunc(g.t.repos, func(id int64) bool { return "R_"+strconv.FormatInt(id, 10) == g.text(m.id) })
		if i >= 0 {
			c = &conversation{repo: g.s.repos[g.t.repos[i]], pull: g.root.Name == "createPullRequest", state: "OPEN", base: g.text("input.baseRefName"), head: g.text("input.headRefName")}
		}
	}
	if !known || c == nil {
		return nil, notFound("node with the global id of '" + g.text(m.id) + "'")
	}
	if g.root.Name == "addComment" {
		m.needs = []string{"issues"}
		if c.pull {
			m.needs = []string{"pull_requests"}
		}
	}
	for _, need := range m.needs {
		if rank(g.t.permissions[need]) < rank("write") {
			return nil, map[string]any{"type": "FORBIDDEN", "message": "Resource not accessible by integration"}
		}
	}
	if creates {
		g.s.serial++
		c.number = g.s.serial
		g.s.conversations = append(g.s.conversations, c)
	}
	g.change(c)
	return map[string]any{
		"issue": g.fields(c), "pullRequest": g.fields(c), "clientMutationId": nil,
		"commentEdge": map[string]any{"node": map[string]any{"url": c.url() + "#issuecomment-" + strconv.Itoa(len(c.comments))}},
	}, nil
}

// change makes the changes of the mutation.
func (g resolver) change(c *conversation) {
	switch {
	case g.root.Name == "addComment":
		c.comments = append(c.comments, g.text("input.body"))
		return
	case g.root.Name == "mergePullRequest":
		c.state = "MERGED"
	case strings.HasPrefix(g.root.Name, "close"):
		c.state = "CLOSED"
	case strings.HasPrefix(g.root.Name, "reopen"):
		c.state = "OPEN"
	}
	if title := g.text("input.title"); title != "" {
		c.title = title
	}
	if body := g.text("input.body"); body != "" {
		c.body = body
	}
}

func actor() map[string]any {
	return map[string]any{"__typename": "Bot", "id": "BOT_1", "login": "ebb-test"}
}

// list is a connection.
func list(nodes ...any) map[string]any {
	if nodes == nil {
		nodes = []any{}
	}
	return map[string]any{"nodes": nodes, "edges": []any{}, "totalCount": len(nodes), "pageInfo": map[string]any{"hasNextPage": false, "endCursor": nil}}
}

func (g resolver) repository(repo *Repository) map[string]any {
	out := map[string]any{
		"id": "R_" + strconv.FormatInt(repo.ID, 10), "name": repo.Name, "nameWithOwner": repo.Owner + "/" + repo.Name, "owner": map[string]any{"id": "O_1", "login": repo.Owner},
		"isPrivate": !repo.Public, "hasIssuesEnabled": true, "viewerPermission": "WRITE", "defaultBranchRef": map[string]any{"name": "main"}, "parent": nil,
		"mergeCommitAllowed": true, "squashMergeAllowed": true, "rebaseMergeAllowed": true, "issue": nil, "issueOrPullRequest": nil, "pullRequest": nil,
	}
	issues, pulls := []any{}, []any{}
	for _, c := range g.s.conversations {
		if c.repo.ID != repo.ID {
			continue
		}
		if !c.pull {
			issues = append(issues, g.fields(c))
		} else if head := g.inside("pullRequests", "headRefName"); head == "" || head == c.head {
			pulls = append(pulls, g.fields(c))
		}
		for _, name := range []string{"issue", "issueOrPullRequest", "pullRequest"} {
			if g.inside(name, "number") == strconv.Itoa(c.number) && (name == "issueOrPullRequest" || c.pull == (name == "pullRequest")) {
				out[name] = g.fields(c)
			}
		}
	}
	out["issues"], out["pullRequests"] = list(issues...), list(pulls...)
	return out
}

// inside returns the argument of a field below the root as text; "" if there is none.
func (g resolver) inside(field, argument string) string {
	for _, f := range g.root.Fields {
		if v := f.Argument(argument); f.Name == field && v != nil {
			return fmt.Sprint(v)
		}
	}
	return ""
}

// fields returns an issue or a pull request.
func (g resolver) fields(c *conversation) map[string]any {
	comments := []any{}
	for i, text := range c.comments {
		comments = append(comments, map[string]any{"id": fmt.Sprintf("IC_%d_%d", c.number, i), "author": actor(), "body": text, "createdAt": "2026-01-02T03:04:05Z", "authorAssociation": "NONE", "url": c.url(), "reactionGroups": []any{}})
	}
	out := map[string]any{
		"__typename": "Issue", "id": c.id(), "number": c.number, "title": c.title, "body": c.body, "state": c.state, "closed": c.state != "OPEN", "url": c.url(), "author": actor(),
		"createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T03:04:05Z", "comments": list(comments...), "reactionGroups": []any{}, "milestone": nil,
	}
	for _, empty := range []string{"labels", "assignees", "projectCards", "projectItems", "reviews", "latestReviews", "reviewRequests", "commits", "statusCheckRollup", "files"} {
		out[empty] = list()
	}
	if c.pull {
		maps.Copy(out, map[string]any{
			"__typename": "PullRequest", "baseRefName": c.base, "headRefName": c.head, "isDraft": false, "isCrossRepository": false, "mergeable": "MERGEABLE", "mergeStateStatus": "CLEAN",
			"isInMergeQueue": false, "isMergeQueueEnabled": false, "maintainerCanModify": false, "autoMergeRequest": nil, "additions": 0, "deletions": 0,
			"headRepository": map[string]any{"id": "R_" + strconv.FormatInt(c.repo.ID, 10), "name": c.repo.Name}, "headRepositoryOwner": map[string]any{"id": "O_1", "login": c.repo.Owner},
		})
	}
	return out
}
