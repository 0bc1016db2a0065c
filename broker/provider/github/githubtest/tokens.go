package githubtest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// token is an installation token.
type token struct {
	in          *Installation
	repos       []int64
	permissions map[string]string
	expires     time.Time
	deadFrom    time.Time // time of the revocation; zero for none
}

const lifetime = time.Hour

func (t *token) lives(now time.Time) bool {
	return now.Before(t.expires) && (t.deadFrom.IsZero() || now.Before(t.deadFrom))
}

// wanted is the body of a mint request.
type wanted struct {
	Names       []string          `json:"repositories"`
	IDs         []int64           `json:"repository_ids"`
	Permissions map[string]string `json:"permissions"`
}

func (s *Server) mint(r request) reply {
	in := s.places.place(r)
	if in == nil {
		return say(http.StatusNotFound, "Not Found")
	}
	if in.Suspended {
		return say(http.StatusForbidden, "This installation has been suspended")
	}
	var w wanted
	if len(r.body) > 0 && json.Unmarshal(r.body, &w) != nil {
		return say(http.StatusBadRequest, "Problems parsing JSON")
	}
	granted, ok := in.cut(w.Permissions, !s.noExtra)
	if !ok {
		return say(http.StatusUnprocessableEntity, "The permissions requested are not granted to this installation.")
	}
	ids, ok := in.choose(s.repos, w)
	if !ok {
		return say(http.StatusUnprocessableEntity, "There is at least one repository that does not exist or is not accessible to the parent installation.")
	}
	t := &token{in: in, repos: ids, permissions: granted, expires: s.clock().Add(lifetime).Truncate(time.Second)}
	text := s.text(r, t)
	s.tokens[text] = t
	body := map[string]any{
		"token": text, "expires_at": t.expires.UTC().Format(time.RFC3339), "permissions": granted, "repository_selection": "all",
	}
	if len(w.IDs)+len(w.Names) > 0 {
		repos := []any{}
		for _, id := range ids {
			repos = append(repos, repository("repository", s.repos[id], nil))
		}
		body["repository_selection"], body["repositories"] = "selected", repos
	}
	if s.alter != nil {
		s.alter(body)
	}
	return reply{status: http.StatusCreated, body: body}
}

// cut returns the permissions of a token, a part of the installation's; an empty request
// means all. With metadata, metadata:read is added.
func (in *Installation) cut(asked map[string]string, metadata bool) (map[string]string, bool) {
	if len(asked) == 0 {
		return maps.Clone(in.Permissions), true
	}
	granted := maps.Clone(asked)
	for name, level := range asked {
		if rank(in.Permissions[name]) < rank(level) {
			return nil, false
		}
	}
	if metadata && granted["metadata"] == "" && in.Permissions["metadata"] != "" {
		granted["metadata"] = "read"
	}
	return granted, true
}

func rank(level string) int { return slices.Index([]string{"", "read", "write", "admin"}, level) }

// choose returns the repositories of a token, a part of the installation's.
func (in *Installation) choose(all repositories, w wanted) ([]int64, bool) {
	ids := slices.Clone(w.IDs)
	for _, name := range w.Names {
		repo := all.named(in.Owner, name)
		if repo == nil {
			return nil, false
		}
		ids = append(ids, repo.ID)
	}
	if len(ids) == 0 {
		return slices.Clone(in.Repositories), true
	}
	if len(ids) > 500 {
		return nil, false
	}
	for _, id := range ids {
		if repo := all[id]; repo == nil || !in.reaches(repo) {
			return nil, false
		}
	}
	return ids, true
}

func (in *Installation) reaches(r *Repository) bool {
	return r.Owner == in.Owner && slices.Contains(in.Repositories, r.ID)
}

// text returns the text of a token: 36 random characters, or a JWT of about 520.
func (s *Server) text(r request, t *token) string {
	format := s.format
	switch r.Header.Get("X-GitHub-Stateless-S2S-Token") {
	case "enabled":
		format = Stateless
	case "disabled":
		format = Opaque
	}
	if format == Opaque {
		return "ghs_" + (rand.Text() + rand.Text())[:36]
	}
	enc := base64.RawURLEncoding
	claims := fmt.Sprintf(`{"iss":"github","sub":"%d","jti":"%s","exp":%d}`, t.in.ID, rand.Text(), t.expires.Unix())
	input := enc.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + enc.EncodeToString([]byte(claims))
	sum := sha256.Sum256([]byte(input))
	sig, err := rsa.SignPKCS1v15(rand.Reader, s.signer, crypto.SHA256, sum[:])
	if err != nil {
		s.t.Errorf("githubtest: %v", err)
	}
	return fmt.Sprintf("ghs_%d_%s.%s", s.app.ID, input, enc.EncodeToString(sig))
}

// bearer returns the token of a request, from Bearer, from GitHub's own scheme "token", or
// from the password of Basic.
func (s *Server) bearer(r *http.Request) (*token, string) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if _, password, ok := r.BasicAuth(); ok {
		text = password
	} else if !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "token") {
		return nil, ""
	}
	t := s.tokens[text]
	if t == nil || !t.lives(s.clock()) {
		return nil, ""
	}
	return t, text
}

// asToken calls do only for a valid token that has the permission, where the path requires
// one.
func (s *Server) asToken(permission string, do func(request, *token) reply) func(request) reply {
	return func(r request) reply {
		t, _ := s.bearer(r.Request)
		if t == nil {
			return say(http.StatusUnauthorized, "Bad credentials")
		}
		if t.in.Suspended {
			return say(http.StatusForbidden, "This installation has been suspended")
		}
		if permission != "" {
			repo := s.repos.named(r.PathValue("owner"), r.PathValue("repo"))
			if repo == nil || (!repo.Public && !slices.Contains(t.repos, repo.ID)) {
				return say(http.StatusNotFound, "Not Found")
			}
			name, level, _ := strings.Cut(permission, ":")
			if rank(t.permissions[name]) < rank(level) {
				return say(http.StatusForbidden, "Resource not accessible by integration")
			}
		}
		return do(r, t)
	}
}

func (s *Server) revoke(r request, t *token) reply {
	_, text := s.bearer(r.Request)
	t.deadFrom = s.clock()
	if strings.Contains(text, ".") {
		t.deadFrom = t.deadFrom.Add(s.lag)
	}
	return reply{status: http.StatusNoContent}
}

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

// repositories are all repositories, by id.
type repositories map[int64]*Repository

func (all repositories) named(owner, name string) *Repository {
	for _, r := range all {
		// GitHub ignores letter case in names.
		if strings.EqualFold(r.Owner, owner) && strings.EqualFold(r.Name, name) {
			return r
		}
	}
	return nil
}

// repository returns a body in one of GitHub's three schemas for repositories.
func repository(schema string, r *Repository, t *token) map[string]any {
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
			list = append(list, repository("repository", r, nil))
		}
	}
	return reply{status: http.StatusOK, body: map[string]any{"total_count": len(list), "repositories": list}}
}

func (s *Server) getRepository(r request, t *token) reply {
	return reply{status: http.StatusOK, body: repository("full-repository", s.repos.named(r.PathValue("owner"), r.PathValue("repo")), t)}
}

func listIssues(request, *token) reply {
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
