package github

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"ebb/broker/exact"
	"ebb/broker/provider"
)

// gitPath is what git and git-lfs ask for below a repository, and nothing of the
// web pages beside it.
var gitPath = regexp.MustCompile(`^/[A-Za-z0-9_-]+/[A-Za-z0-9._-]+/(?:info/refs|git-upload-pack|git-receive-pack|info/lfs/[A-Za-z0-9/_-]+)$`)

// errElsewhere is what a request gets that goes anywhere else.
var errElsewhere = fmt.Errorf("github: %w: it goes to neither the API nor git of this provider", provider.ErrElsewhere)

// Inject adds the token: Bearer at the API, Basic with the user x-access-token for
// git. Scheme, host and port must be exactly those of the configuration.
func (d *Driver) Inject(_ context.Context, r *http.Request, t provider.Target) error {
	token, _, err := tokenOf(t)
	if err != nil || token.Empty() {
		return errors.Join(errors.New("github: there is no token to inject"), err)
	}
	if r.URL == nil || r.URL.User != nil || (r.Host != "" && r.Host != r.URL.Host) || !plain(r) {
		return errElsewhere
	}
	switch {
	case d.isAPI(r.URL):
		r.Header.Set("Authorization", "Bearer "+token.Reveal())
	case d.isGit(r.URL):
		r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("x-access-token:"+token.Reveal())))
	default:
		return errElsewhere
	}
	return nil
}

// isAPI knows the REST API, and on Enterprise Server what lies beside it.
func (d *Driver) isAPI(u *url.URL) bool {
	base, err := url.Parse(d.cfg.APIURL)
	if err != nil || !sameOrigin(base, u) {
		return false
	}
	if strings.HasPrefix(u.Path, base.Path+"/") {
		return true
	}
	root, versioned := strings.CutSuffix(base.Path, "/v3")
	return versioned && (u.Path == root+"/graphql" || strings.HasPrefix(u.Path, root+"/uploads/"))
}

func (d *Driver) isGit(u *url.URL) bool {
	base, err := url.Parse(d.cfg.GitURL)
	if err != nil || !sameOrigin(base, u) {
		return false
	}
	rest, below := strings.CutPrefix(u.Path, base.Path)
	return below && gitPath.MatchString(rest)
}

// plain refuses requests that a server could read otherwise than we do. Names of files
// and branches are text, and may hold an encoded slash.
func plain(r *http.Request) bool {
	if r.URL.Opaque != "" || exact.Header(r.Header) != nil {
		return false
	}
	_, badQuery := exact.Query(r.URL.RawQuery)
	_, badPath := exact.Path(r.URL.EscapedPath(), exact.PathForm{Slash: true, Text: true})
	return badQuery == nil && badPath == nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && hostPort(a) == hostPort(b) }

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
