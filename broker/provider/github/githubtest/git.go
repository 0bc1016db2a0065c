package githubtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// bareRepositories are the git directories of repositories that have one, by owner/name.
type bareRepositories struct {
	root string // "" = none
	git  string // the program
}

// Bare gives every repository a git directory, served by git http-backend, and returns the
// directory in which they lie as owner/name.git. Bare is called once, before the first request.
func (s *Server) Bare() (root string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bare = bareRepositories{root: s.t.TempDir(), git: counterpart.Program(s.t, "git")}
	for _, r := range s.repos {
		dir := filepath.Join(s.bare.root, r.Owner, r.Name+".git")
		for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main", dir}, {"-C", dir, "config", "http.receivepack", "true"}} {
			cmd := exec.CommandContext(s.t.Context(), s.bare.git, args...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1"}
			if out, err := cmd.CombinedOutput(); err != nil {
				s.t.Fatalf("git %s: %v %s", strings.Join(args, " "), err, out)
			}
		}
	}
	return s.bare.root
}

// git answers the requests of fetch and push (smart protocol). A repository without a git directory
// is empty.
func (s *Server) git(r request) reply {
	service := strings.TrimPrefix(r.URL.Query().Get("service")+r.PathValue("service"), "service=")
	level := map[string]string{"git-upload-pack": "read", "git-receive-pack": "write"}[service]
	ask := reply{status: http.StatusUnauthorized, raw: []byte("Authentication required\n"), header: http.Header{"Www-Authenticate": {`Basic realm="GitHub"`}, "Content-Type": {"text/plain"}}}
	user, _, basic := r.BasicAuth()
	t, _ := s.bearer(r.Request)
	if !basic || user != "x-access-token" || t == nil || level == "" {
		return ask
	}
	repo := s.repos.named(r.PathValue("owner"), strings.TrimSuffix(r.PathValue("repo"), ".git"))
	if repo == nil || !slices.Contains(t.repos, repo.ID) {
		return reply{status: http.StatusNotFound, raw: []byte("Repository not found.\n"), header: http.Header{"Content-Type": {"text/plain"}}}
	}
	if rank(t.permissions["contents"]) < rank(level) {
		return reply{status: http.StatusForbidden, raw: []byte("Write access to repository not granted.\n"), header: http.Header{"Content-Type": {"text/plain"}}}
	}
	if s.bare.root != "" {
		return s.bare.serve(r, *repo)
	}
	first := "# service=" + service + "\n"
	return reply{
		status: http.StatusOK, raw: fmt.Appendf(nil, "%04x%s00000000", len(first)+4, first),
		header: http.Header{"Content-Type": {"application/x-" + service + "-advertisement"}},
	}
}

// serve has git http-backend answer a request.
func (b bareRepositories) serve(r request, repo Repository) reply {
	out := r.Clone(r.Context())
	out.Body = io.NopCloser(bytes.NewReader(r.body))
	out.ContentLength, out.TransferEncoding = int64(len(r.body)), nil
	_, below, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"+repo.Owner+"/"), "/")
	out.URL.Path = "/" + repo.Owner + "/" + repo.Name + ".git/" + below
	rec := httptest.NewRecorder()
	(&cgi.Handler{Path: b.git, Args: []string{"http-backend"}, Env: []string{
		"GIT_PROJECT_ROOT=" + b.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x-access-token", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}}).ServeHTTP(rec, out)
	return reply{status: rec.Code, raw: rec.Body.Bytes(), header: rec.Header()}
}

// compare answers a request for two commits with their merge base.
func (b bareRepositories) compare(r request) reply {
	base, head, _ := strings.Cut(r.PathValue("basehead"), "...")
	dir := filepath.Join(b.root, r.PathValue("owner"), r.PathValue("repo")+".git")
	out, err := exec.CommandContext(r.Context(), b.git, "-c", "safe.directory=*", "-C", dir, "merge-base", base, head).Output()
	if err != nil {
		return say(http.StatusNotFound, "No common ancestor between "+base+" and "+head+".")
	}
	return reply{status: http.StatusOK, body: map[string]any{"merge_base_commit": map[string]any{"sha": strings.TrimSpace(string(out))}}}
}
