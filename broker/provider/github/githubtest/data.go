package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Put creates, renames or replaces repositories, by id.
func (s *Server) Put(repos ...Repository) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range repos {
		s.repos[r.ID] = &r
	}
}

// Delete removes a repository.
func (s *Server) Delete(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.repos, id)
}

func (s *Server) named(owner, name string) *Repository {
	for _, r := range s.repos {
		// GitHub does not mind the case of names.
		if strings.EqualFold(r.Owner, owner) && strings.EqualFold(r.Name, name) {
			return r
		}
	}
	return nil
}

// repository is a body of one of GitHub's three schemas for it.
func (s *Server) repository(schema string, r *Repository, t *token) map[string]any {
	body := example(schema)
	owner := example("simple-user")
	owner["login"] = r.Owner
	body["id"], body["name"], body["full_name"], body["owner"] = r.ID, r.Name, r.Owner+"/"+r.Name, owner
	body["private"] = !r.Public
	if t != nil {
		push := rank(t.permissions["contents"]) >= rank("write")
		body["permissions"] = map[string]any{"admin": false, "pull": true, "push": push}
	}
	return body
}

func (s *Server) listRepositories(_ request, t *token) reply {
	list := []any{}
	for _, id := range t.repos {
		if r := s.repos[id]; r != nil {
			list = append(list, s.repository("repository", r, nil))
		}
	}
	return reply{status: http.StatusOK, body: map[string]any{"total_count": len(list), "repositories": list}}
}

func (s *Server) getRepository(r request, t *token) reply {
	return reply{status: http.StatusOK, body: s.repository("full-repository", s.named(r.PathValue("owner"), r.PathValue("repo")), t)}
}

func (s *Server) listIssues(request, *token) reply {
	return reply{status: http.StatusOK, body: []any{}}
}

func (s *Server) openIssue(r request, t *token) reply {
	var in struct {
		Title string `json:"title"`
	}
	if json.Unmarshal(r.body, &in) != nil || in.Title == "" {
		return say(http.StatusUnprocessableEntity, "Validation Failed")
	}
	s.serial++
	body := example("issue")
	body["number"], body["title"] = s.serial, in.Title
	return reply{status: http.StatusCreated, body: body, header: http.Header{"Location": {fmt.Sprintf("https://api.github.com/repos/%s/issues/%d", t.in.Owner, s.serial)}}}
}

// git is the first step of fetch and push of the smart protocol, for an empty
// repository.
func (s *Server) git(r request) reply {
	service := r.URL.Query().Get("service")
	level := map[string]string{"git-upload-pack": "read", "git-receive-pack": "write"}[service]
	ask := reply{status: http.StatusUnauthorized, raw: []byte("Authentication required\n"), header: http.Header{"Www-Authenticate": {`Basic realm="GitHub"`}, "Content-Type": {"text/plain"}}}
	user, _, basic := r.BasicAuth()
	t, _ := s.bearer(r.Request)
	if !basic || user != "x-access-token" || t == nil || level == "" {
		return ask
	}
	repo := s.named(r.PathValue("owner"), strings.TrimSuffix(r.PathValue("repo"), ".git"))
	if repo == nil || !slices.Contains(t.repos, repo.ID) {
		return reply{status: http.StatusNotFound, raw: []byte("Repository not found.\n"), header: http.Header{"Content-Type": {"text/plain"}}}
	}
	if rank(t.permissions["contents"]) < rank(level) {
		return reply{status: http.StatusForbidden, raw: []byte("Write access to repository not granted.\n"), header: http.Header{"Content-Type": {"text/plain"}}}
	}
	first := "# service=" + service + "\n"
	return reply{
		status: http.StatusOK, raw: fmt.Appendf(nil, "%04x%s00000000", len(first)+4, first),
		header: http.Header{"Content-Type": {"application/x-" + service + "-advertisement"}},
	}
}
