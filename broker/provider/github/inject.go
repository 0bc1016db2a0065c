package github

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ebb/broker/exact"
	"ebb/broker/provider"
	"ebb/scopes"
)

// Injects implements provider.Injector: for permissions of a repository whose routes are
// known.
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

// disclosed is what GitHub's answers hold of credentials: a token that clones in what it says
// of a repository, and URLs of files and pictures that open them for whoever has them.
var disclosed = &provider.Disclosed{Members: []string{"temp_clone_token"}, Parameters: []string{"token", "jwt", "sig", "X-Amz-Signature", "X-Amz-Security-Token"}}

// Discloses implements provider.Discloser. What git fetches is what was pushed.
func (d *Driver) Discloses(r *http.Request, _ provider.Target) *provider.Disclosed {
	host, err1 := exact.Origin(r)
	path, err2 := exact.Target(r, exact.PathForm{Slash: true, Text: true})
	if err := errors.Join(err1, err2); err == nil {
		if _, api := under(d.cfg.APIURL, host, path); !api {
			return nil
		}
	}
	return disclosed
}

// Inject adds the token to what the lease's scopes are for: Bearer at the API, Basic with
// the user x-access-token for git. Repositories are those of the scopes, spelled as they
// spell them. GraphQL is denied, whatever the scopes are: what a query is for stands in
// its body, where nobody looks.
func (d *Driver) Inject(_ context.Context, r *http.Request, t provider.Target) error {
	token, _, err := tokenOf(t)
	if err != nil || token.Empty() {
		return errors.Join(errors.New("github: there is no token to inject"), err)
	}
	a, err := d.cfg.read(t.Scopes)
	if err != nil {
		return provider.Elsewhere("its lease's scopes are not configured any more")
	}
	host, err := exact.Origin(r)
	if err != nil {
		return provider.Elsewhere(err.Error())
	}
	// Names of files and branches are text, and may hold an encoded slash.
	path, err := exact.Target(r, exact.PathForm{Slash: true, Text: true})
	if err != nil {
		return provider.Elsewhere(err.Error())
	}
	if below, is := under(d.cfg.APIURL, host, path); is {
		if len(below) < 3 || below[0] != "repos" || !slices.Contains(a.repositories, below[1]+"/"+below[2]) || !covers(a.permissions, r.Method, below[3:]) {
			return provider.Elsewhere("it is none of the REST API's that the lease's scopes are for")
		}
		provider.SetHeader(r, "Authorization", "Bearer "+token.Reveal())
		return nil
	}
	if below, is := under(d.cfg.GitURL, host, path); is && isGit(r, below, a) {
		provider.SetHeader(r, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("x-access-token:"+token.Reveal())))
		return nil
	}
	return provider.Elsewhere("it goes to neither the API nor git of the lease's scopes")
}

// under is what of a path lies below a base URL, if it goes there.
func under(base string, host exact.Host, path []string) (below []string, is bool) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, false
	}
	at, err := exact.ParseHost(u.Host, 443)
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

// isGit knows the smart HTTP protocol (gitprotocol-http(5)): to fetch takes contents:read,
// to push contents:write. Git LFS is not among it: its answers hold credentials.
func isGit(r *http.Request, below []string, a ask) bool {
	if len(below) < 3 || !slices.Contains(a.repositories, below[0]+"/"+strings.TrimSuffix(below[1], ".git")) {
		return false
	}
	service := ""
	switch what := strings.Join(below[2:], "/"); {
	case r.Method == http.MethodGet && what == "info/refs":
		if name, is := strings.CutPrefix(r.URL.RawQuery, "service="); is {
			service = name
		}
	case r.Method == http.MethodPost && r.URL.RawQuery == "":
		service = what
	}
	switch service {
	case "git-upload-pack":
		return atLeast(a.permissions["contents"], readLevel)
	case "git-receive-pack":
		return atLeast(a.permissions["contents"], "write")
	}
	return false
}
