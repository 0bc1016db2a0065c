package github

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/graphql"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// GraphQL requests are judged by their fields, like REST requests by their routes. ebb judges:
//   - that every mutation and every field is one of the tables (graphql_types.go),
//   - that the lease has the permissions which the tables assign to them,
//   - that a repository, an organization or a search is named as in the lease's scopes.
//
// GitHub judges the rest by the token, which is limited to the repositories and permissions of the
// lease: a node id can be one of another repository, and the token neither changes that repository
// nor reads it unless it is public. The same holds for what objects refer to: the author of an
// issue, the issues that a pull request closes, projects, runs of a workflow.
//
// The token of a lease may have the permission contents although the lease's scopes do not, if they
// are limited to refs. So nothing that needs contents is left to the token.

// need is a condition that a lease's scopes must meet for a request.
type need struct {
	repository  string   // owner/repository; "" = any of the lease's
	owner       string   // "" = any
	permissions []string // any one of them suffices
	level       string
}

// met reports whether the scopes of an ask meet the need. They must meet a need without a repository
// in each of the ask's, because a node id does not tell its repository. Every token for a repository
// can read its metadata.
func (n need) met(a ask) bool {
	if n.owner != "" && n.owner != a.owner || n.repository != "" && !slices.Contains(a.repositories, n.repository) {
		return false
	}
	return !slices.ContainsFunc(n.repositories(a), func(repository string) bool {
		return !slices.ContainsFunc(n.permissions, func(permission string) bool {
			return permission == metadata && n.level == readLevel || atLeast(a.allowed[repository][permission], n.level) || atLeast(a.organization[permission], n.level)
		})
	})
}

// repositories returns those that the need is about.
func (n need) repositories(a ask) []string {
	if n.repository != "" {
		return []string{n.repository}
	}
	return a.repositories
}

// scopes returns scopes of a provider that meet the need.
func (n need) scopes(name string, a ask) (out []scopes.Scope, err error) {
	permission := n.permissions[0]
	if i := slices.IndexFunc(n.permissions, func(p string) bool { return a.permissions[p] != "" }); i >= 0 {
		permission = n.permissions[i]
	}
	for _, repository := range n.repositories(a) {
		where := repository
		if permissions[permission].where == inOrganization {
			where = "@" + a.owner
		}
		s, err := scopes.New(name, where+"/"+permission, n.level)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// graphQLFacts are the arguments of root fields that the audit log and approvers see.
var graphQLFacts = []string{
	"owner", "name", "number", "query", "login", "id",
	"input.repositoryId", "input.pullRequestId", "input.issueId", "input.subjectId", "input.labelableId", "input.assignableId", "input.lockableId", "input.id", "input.refId",
	"input.pullRequestReviewId", "input.pullRequestReviewCommentId", "input.pullRequestReviewThreadId", "input.threadId", "input.inReplyTo", "input.subIssueId",
	"input.branch.id", "input.branch.repositoryNameWithOwner", "input.branch.branchName", "input.message.headline",
	"input.name", "input.oid", "input.force", "input.base", "input.head",
	"input.baseRefName", "input.headRefName", "input.title", "input.state", "input.event", "input.mergeMethod", "input.expectedHeadOid",
}

// judgeGraphQL is Judge for a GraphQL request.
func (d *Driver) judgeGraphQL(r *http.Request, have scopes.Set, a ask) (content.Facts, error) {
	doc, err := graphql.Read(r)
	if err != nil {
		return content.Facts{}, err
	}
	facts := doc.Facts(graphQLFacts...)
	needs, err := graphQLNeeds(doc)
	if err != nil {
		why := err.Error()
		if e, is := errors.AsType[*provider.ElsewhereError](err); is {
			why = e.Why
		}
		return facts, &provider.UncoveredError{Why: why}
	}
	if !slices.ContainsFunc(needs, func(n need) bool { return !n.met(a) }) {
		return facts, nil
	}
	var all []scopes.Scope
	for _, n := range needs {
		some, err := n.scopes(have.Providers()[0], a)
		if err != nil {
			return facts, &provider.UncoveredError{Why: "it is about a repository whose name fits into no scope"}
		}
		all = append(all, some...)
	}
	needed, _ := scopes.NewSet(all...) // empty if they are too many for one request
	return facts, &provider.UncoveredError{Needed: needed, Why: "the scopes of its lease do not cover each field of its GraphQL document"}
}

// graphQLReply is a response that refuses a request (GraphQL specification, October 2021, section
// 7.1). Clients show the messages of such a response.
func graphQLReply(text string) (mediaType string, body []byte) {
	type refusal struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	body, _ = json.Marshal(struct { // cannot fail: all fields are strings
		Data   any       `json:"data"`
		Errors []refusal `json:"errors"`
	}{Errors: []refusal{{Type: "FORBIDDEN", Message: text}}})
	return "application/json; charset=utf-8", body
}

// graphQLNeeds returns what a document needs, each need once, and all of them are to be met. Its
// error wraps provider.ErrElsewhere: no lease allows the document.
func graphQLNeeds(doc *graphql.Document) ([]need, error) {
	w := graphQLWalk{}
	for _, root := range doc.Fields {
		var err error
		if doc.Action == "mutation" {
			err = w.mutation(root)
		} else {
			err = w.query(root)
		}
		if err != nil {
			return nil, err
		}
	}
	return w.needs, nil
}

// graphQLWalk collects the needs of a document.
type graphQLWalk struct {
	repository string // that the fields are below; "" = any of the lease's
	needs      []need
}

// add adds the need of any one of permissions, if there are any.
func (w *graphQLWalk) add(permissions []string, level string) {
	if len(permissions) > 0 {
		w.put(need{repository: w.repository, permissions: permissions, level: level})
	}
}

// put adds a need, unless it is there.
func (w *graphQLWalk) put(n need) {
	if !slices.ContainsFunc(w.needs, func(o need) bool {
		return o.repository == n.repository && o.owner == n.owner && o.level == n.level && slices.Equal(o.permissions, n.permissions)
	}) {
		w.needs = append(w.needs, n)
	}
}

func (w *graphQLWalk) mutation(root graphql.Field) error {
	if root.Name == "__typename" {
		return nil
	}
	all := graphQLWrites[root.Name]
	if all == nil {
		return provider.Elsewhere("it has a GraphQL mutation that ebb assigns to no permission: use the REST API for it")
	}
	w.repository = ""
	for _, permissions := range all {
		w.add(permissions, writeLevel)
	}
	return w.selection("Mutation", false, root.Fields)
}

// query judges a field of the root, whose name tells which repositories it is about.
func (w *graphQLWalk) query(root graphql.Field) error {
	w.repository = ""
	about := []string{""}
	switch root.Name {
	case "repository":
		owner, _ := root.Arguments["owner"].(string)
		name, _ := root.Arguments["name"].(string)
		about = []string{owner + "/" + name}
	case "search":
		text, _ := root.Arguments["query"].(string)
		if about = searched(text); about == nil {
			return provider.Elsewhere("its GraphQL search must name its repositories with repo:<owner>/<repository>, and must have no owners, parentheses or OR")
		}
	case "organization":
		login, _ := root.Arguments["login"].(string)
		if login == "" {
			return provider.Elsewhere("its GraphQL field organization has no login")
		}
		w.put(need{owner: login, permissions: []string{metadata}, level: readLevel})
	}
	for _, w.repository = range about {
		w.add([]string{metadata}, readLevel)
		if err := w.selection("Query", false, []graphql.Field{root}); err != nil {
			return err
		}
	}
	return nil
}

// maxSearched is how many repositories a search may name.
const maxSearched = 20

// searched returns the repositories that a search is limited to; nil if it is not certainly limited.
// Quoted text has no qualifiers. Several of repo:, user: and org: mean any of them.
func searched(query string) (repositories []string) {
	if strings.ContainsAny(query, `()\`) || strings.Count(query, `"`)%2 != 0 {
		return nil
	}
	var unquoted []string
	for i, part := range strings.Split(query, `"`) {
		if i%2 == 0 {
			unquoted = append(unquoted, part)
		}
	}
	for word := range strings.FieldsSeq(strings.Join(unquoted, `"`)) { // a quote in place of quoted text
		qualifier, value, _ := strings.Cut(word, ":")
		switch strings.ToLower(strings.TrimLeft(qualifier, "-")) {
		case "or", "not", "user", "org", "owner", "enterprise":
			return nil
		case "repo":
			if qualifier != "repo" || value == "" || strings.Contains(value, `"`) {
				return nil
			}
			if !slices.Contains(repositories, value) {
				repositories = append(repositories, value)
			}
			if len(repositories) > maxSearched {
				return nil
			}
		}
	}
	return repositories
}

// selection judges the fields of an object, or of a connection to objects of the type.
func (w *graphQLWalk) selection(of string, connection bool, fields []graphql.Field) error {
	if strings.HasPrefix(of, "__") {
		return nil // introspection: the schema is public
	}
	for _, f := range fields {
		at, err := w.narrow(of, connection, f.On)
		if err != nil {
			return err
		}
		if f.Name == "__typename" {
			continue
		}
		to, known := graphQLSchema[at].fields[f.Name]
		if connection {
			switch f.Name {
			case "nodes", "node":
				to, known = graphQLField{of: of}, true
			case "edges":
				to, known = graphQLField{of: of, connection: true}, true
			default:
				to, known = graphQLEdges[f.Name]
			}
		}
		if !known || (to.of == "") != (len(f.Fields) == 0) {
			if at == "linkedRepository" {
				at = "a repository that it does not name"
			}
			return provider.Elsewhere("it has a GraphQL field of " + at + " that ebb assigns to no permission: leave it out, or use the REST API")
		}
		w.add(to.need, readLevel)
		if err := w.selection(to.of, to.connection, f.Fields); err != nil {
			return err
		}
	}
	return nil
}

// narrow returns the type of an object under a type condition, and adds the need of that type. A
// condition that names the object's own type changes nothing. The root is a Node in GitHub's schema,
// and must not be reached again below a field, where no name would be judged.
//
// gh asks for an issue or a pull request by a number or an id that may be either, with a fragment on
// each. GitHub finds out which it is and judges by the token; here either permission suffices.
func (w *graphQLWalk) narrow(of string, connection bool, on string) (string, error) {
	if on == "Repository" && of != "Repository" {
		on = "linkedRepository"
	}
	if on == "" || on == of && !connection {
		return of, nil
	}
	t, known := graphQLSchema[on]
	if !known || connection || of == "Query" || on == "Query" || on == "Mutation" {
		return "", provider.Elsewhere("it has a GraphQL fragment on a type that ebb does not know: leave it out, or use the REST API")
	}
	if (of == "IssueOrPullRequest" || of == "Node") && (on == "Issue" || on == "PullRequest") {
		t.need = graphQLSchema["IssueOrPullRequest"].need
	}
	w.add(t.need, readLevel)
	return on, nil
}
