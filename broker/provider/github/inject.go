package github

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// Injects implements provider.Injector. It is true for repository permissions with known
// routes.
func (d *Driver) Injects(s scopes.Set) bool {
	a, err := d.cfg.read(s)
	if err != nil {
		return false
	}
	for permission := range a.permissions {
		if table[permission] == nil {
			return false
		}
	}
	return true
}

// disclosed lists the credentials in GitHub's responses: a clone token in the data of a
// repository, and signed URLs of files and pictures.
var disclosed = &provider.Disclosed{Members: []string{"temp_clone_token"}, Parameters: []string{"token", "jwt", "sig", "X-Amz-Signature", "X-Amz-Security-Token"}}

// Discloses implements provider.Discloser. Responses to git are the pushed content and stay as
// they are.
func (d *Driver) Discloses(r *http.Request, _ provider.Target) *provider.Disclosed {
	host, err1 := stricturl.Origin(r)
	path, err2 := stricturl.Target(r, stricturl.PathForm{Slash: true, Text: true})
	if err := errors.Join(err1, err2); err == nil {
		_, api := under(d.cfg.APIURL, host, path)
		if _, graphQL := under(graphQLURL(d.cfg.APIURL), host, path); !api && !graphQL {
			return nil
		}
	}
	return disclosed
}

// Inject adds the token to requests that the lease's scopes cover: Bearer at the API, Basic with
// the user x-access-token for git. Names of repositories must be spelled as in the scopes. Judge
// decides about a push and about GraphQL, whose effects depend on the body.
func (d *Driver) Inject(_ context.Context, r *http.Request, t provider.Target) error {
	token, _, err := tokenOf(t)
	if err != nil || token.Empty() {
		return errors.Join(errors.New("github: there is no token to inject"), err)
	}
	a, err := d.cfg.read(t.Scopes)
	if err != nil {
		return provider.Elsewhere("its lease's scopes are not configured any more")
	}
	at, err := d.placeOf(r)
	if err != nil {
		return err
	}
	if err := at.of(r, a); err != nil {
		return err
	}
	if at.api || at.graphQL {
		provider.SetHeader(r, "Authorization", "Bearer "+token.Reveal())
	} else {
		provider.SetHeader(r, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("x-access-token:"+token.Reveal())))
	}
	return nil
}

// requested is the destination of a request: the endpoint of GraphQL, below the REST API, or else
// below git.
type requested struct {
	graphQL bool
	api     bool
	below   []string // of the API: "repos", owner, repository, ...; of git: owner, repository, ...
}

func (d *Driver) placeOf(r *http.Request) (requested, error) {
	host, err := stricturl.Origin(r)
	if err != nil {
		return requested{}, provider.Elsewhere(err.Error())
	}
	// Names of files and branches are text, and may contain an encoded slash.
	path, err := stricturl.Target(r, stricturl.PathForm{Slash: true, Text: true})
	if err != nil {
		return requested{}, provider.Elsewhere(err.Error())
	}
	if below, is := under(graphQLURL(d.cfg.APIURL), host, path); is && len(below) == 0 {
		return requested{graphQL: true}, nil
	}
	if below, is := under(d.cfg.APIURL, host, path); is {
		return requested{api: true, below: below}, nil
	}
	if below, is := under(d.cfg.GitURL, host, path); is {
		return requested{below: below}, nil
	}
	return requested{}, provider.Elsewhere("it goes to neither the API nor git of the lease's scopes")
}

// graphQLURL returns the endpoint of GraphQL beside a REST API: https://api.github.com/graphql, or
// https://HOST/api/graphql of an Enterprise Server (docs.github.com/graphql/guides).
func graphQLURL(api string) string {
	return strings.TrimSuffix(api, "/v3") + "/graphql"
}

// of returns an error for a request that an ask does not cover. It wraps
// provider.ErrElsewhere.
func (q requested) of(r *http.Request, a ask) error {
	below := q.below
	switch {
	case q.graphQL && (r.Method != http.MethodPost || r.URL.RawQuery != ""):
		return provider.Elsewhere("a GraphQL request must be a POST without a query in its URL")
	case q.graphQL:
	case q.api && len(below) > 3 && a.limitsPushes() && slices.ContainsFunc(commits, func(c route) bool { return c.method == r.Method && c.matches(below[3:]) }):
		return provider.Elsewhere("it writes a commit to a branch, which scopes for refs do not allow: request contents:write")
	case q.api && (len(below) < 3 || below[0] != "repos" || !slices.Contains(a.repositories, below[1]+"/"+below[2]) || !covers(a.allowed[below[1]+"/"+below[2]], r.Method, below[3:])):
		return provider.Elsewhere("it is none of the REST API's that the lease's scopes are for")
	case !q.api && !isGit(r, below, a):
		return provider.Elsewhere("it is none of git's that the lease's scopes are for")
	}
	return nil
}

// ScopesFor implements provider.Injector: for each permission that covers the request, its
// lowest level, and for a push that of new branches.
func (d *Driver) ScopesFor(name string, r *http.Request) (out []scopes.Scope) {
	at, err := d.placeOf(r)
	if err != nil {
		return nil
	}
	if at.graphQL && at.of(r, ask{}) == nil {
		return d.anyPinned(name)
	}
	names := at.below
	if at.api && len(names) > 0 {
		names = names[1:]
	}
	if len(names) < 2 {
		return nil
	}
	repository := names[0] + "/" + names[1]
	if !at.api {
		repository = strings.TrimSuffix(repository, ".git")
		out = d.refsFor(name, repository, at, r)
	}
	for _, permission := range slices.Sorted(maps.Keys(table)) {
		for _, level := range permissions[permission].levels {
			s, err := scopes.New(name, repository+"/"+permission, level)
			if err != nil {
				continue
			}
			set, err1 := scopes.NewSet(s)
			if a, err2 := d.cfg.read(set); errors.Join(err1, err2) == nil && at.of(r, a) == nil {
				out = append(out, s)
				break
			}
		}
	}
	return out
}

// anyPinned returns a scope for each pinned repository. Only the body of a GraphQL request names the
// repository.
func (d *Driver) anyPinned(name string) (out []scopes.Scope) {
	for _, repository := range slices.Sorted(maps.Keys(d.cfg.Repositories)) {
		if s, err := scopes.New(name, repository+"/"+metadata, readLevel); err == nil {
			out = append(out, s)
		}
	}
	return out
}

// under returns the part of a path below a base URL; is is false when the request goes
// elsewhere.
func under(base string, host stricturl.Host, path []string) (below []string, is bool) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, false
	}
	at, err := stricturl.ParseHost(u.Host, 443)
	if err != nil || at != host {
		return nil, false
	}
	var head []string
	if p := strings.Trim(u.Path, "/"); p != "" {
		head = strings.Split(p, "/")
	}
	if len(path) < len(head) || !slices.Equal(path[:len(head)], head) {
		return nil, false
	}
	return path[len(head):], true
}

// isGit reports whether a request is one of the smart HTTP protocol (gitprotocol-http(5))
// that the ask covers. Fetching needs contents:read, pushing contents:write or a scope for refs, whose
// commands Judge checks. Git LFS is not supported, because its responses contain credentials.
func isGit(r *http.Request, below []string, a ask) bool {
	if len(below) < 3 {
		return false
	}
	repository, service := below[0]+"/"+strings.TrimSuffix(below[1], ".git"), ""
	switch what := strings.Join(below[2:], "/"); {
	case r.Method == http.MethodGet && what == "info/refs":
		if name, is := strings.CutPrefix(r.URL.RawQuery, "service="); is {
			service = name
		}
	case r.Method == http.MethodPost && r.URL.RawQuery == "":
		service = what
	}
	have := a.allowed[repository][contents]
	switch service {
	case "git-upload-pack":
		return atLeast(have, readLevel)
	case receivePack:
		return atLeast(have, writeLevel) || a.refs[repository]
	}
	return false
}

// route is one line of routes.
type route struct {
	method  string
	pattern []string
}

func (r route) matches(below []string) bool {
	if len(below) < len(r.pattern) {
		return false
	}
	pattern := slices.Clone(r.pattern)
	for i, want := range pattern {
		switch {
		case want == "*" && strings.Contains(below[i], "%2f"), want == "#" && strings.Trim(below[i], "0123456789") != "":
			return false
		case want == "#":
			pattern[i] = "*"
		}
	}
	return stricturl.Matches(pattern, below)
}

// table is routes, parsed once, by permission and level.
var table = func() map[string]map[string][]route {
	out := map[string]map[string][]route{}
	for permission, levels := range routes {
		out[permission] = map[string][]route{}
		for level, text := range levels {
			for line := range strings.Lines(strings.TrimSpace(text)) {
				method, path, _ := strings.Cut(strings.TrimSpace(line), " ")
				var pattern []string
				if path != "/" {
					pattern = strings.Split(path[1:], "/")
				}
				out[permission][level] = append(out[permission][level], route{method, pattern})
			}
		}
	}
	return out
}()

// covers reports whether the permissions cover a request below a repository. below is its
// path there. HEAD is treated as GET (RFC 9110 section 9.3.2).
func covers(permissions map[string]string, method string, below []string) bool {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for permission, have := range permissions {
		for level, lines := range table[permission] {
			if !atLeast(have, level) {
				continue
			}
			if slices.ContainsFunc(lines, func(r route) bool {
				return r.method == method && r.matches(below)
			}) {
				return true
			}
		}
	}
	return false
}
