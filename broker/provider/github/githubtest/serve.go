package githubtest

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
)

// reply is an answer in the making: a status and a body that becomes JSON.
type reply struct {
	status int
	body   any // nil: none
	raw    []byte
	header http.Header
}

// say is an error of GitHub's form.
func say(status int, message string) reply {
	return reply{status: status, body: map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest", "status": http.StatusText(status)}}
}

// request is what a route sees.
type request struct {
	*http.Request
	body []byte
}

// handler frames every route: the fault, the limit, the deed, the check.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	api := func(pattern string, do func(request) reply) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+s.prefix+path, func(w http.ResponseWriter, r *http.Request) { s.frame(w, r, true, do) })
	}
	api("GET /app", s.asApp(s.getApp))
	api("GET /app/installations", s.asApp(s.listInstallations))
	api("GET /app/installations/{id}", s.asApp(s.getInstallation))
	api("POST /app/installations/{id}/access_tokens", s.asApp(s.mint))
	api("PUT /app/installations/{id}/suspended", s.asApp(s.suspend))
	api("DELETE /app/installations/{id}/suspended", s.asApp(s.suspend))
	api("GET /repos/{owner}/{repo}/installation", s.asApp(s.installationOf))
	api("DELETE /installation/token", s.asToken("", s.revoke))
	api("GET /installation/repositories", s.asToken("", s.listRepositories))
	api("GET /rate_limit", s.asToken("", s.rateLimit))
	api("GET /repos/{owner}/{repo}", s.asToken("metadata:read", s.getRepository))
	api("GET /repos/{owner}/{repo}/issues", s.asToken("issues:read", s.listIssues))
	api("POST /repos/{owner}/{repo}/issues", s.asToken("issues:write", s.openIssue))
	git := func(w http.ResponseWriter, r *http.Request) { s.frame(w, r, false, s.git) }
	mux.HandleFunc("GET /{owner}/{repo}/info/refs", git)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.frame(w, r, false, func(request) reply { return say(http.StatusNotFound, "Not Found") })
	})
	return mux
}

// frame serves one call.
func (s *Server) frame(w http.ResponseWriter, r *http.Request, documented bool, do func(request) reply) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.note(r, body)
	fault := s.fault(r)
	s.mu.Unlock()
	if documented {
		s.checkRequest(r, body)
	}
	if fault != nil && fault.instead(w, r) {
		return
	}
	s.mu.Lock()
	out, limited := s.limited(r)
	if !limited {
		out = do(request{r, body})
	}
	head := http.Header{
		"Date": {s.clock().UTC().Format(http.TimeFormat)}, "X-Github-Request-Id": {"EBB:TEST"},
		"Content-Type": {"application/json; charset=utf-8"}, "X-Github-Media-Type": {"github.v3; format=json"},
	}
	s.budget(head)
	s.mu.Unlock()
	maps.Copy(head, out.header)
	if out.body != nil {
		if out.raw, err = json.Marshal(out.body); err != nil {
			s.t.Errorf("githubtest: %v", err)
		}
	}
	if len(out.raw) == 0 {
		head.Del("Content-Type")
	}
	rec := httptest.NewRecorder()
	maps.Copy(rec.Header(), head)
	rec.WriteHeader(out.status)
	_, _ = rec.Write(out.raw)
	if documented && s.asDocumented() {
		s.checkAnswer(r, rec)
	}
	if fault != nil && fault.after(w, rec) {
		return
	}
	maps.Copy(w.Header(), head)
	w.WriteHeader(out.status)
	_, _ = w.Write(out.raw)
}

// asDocumented is false while a test spoils answers.
func (s *Server) asDocumented() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alter == nil
}

// note keeps what arrived, without credentials. The lock is held.
func (s *Server) note(r *http.Request, body []byte) {
	h := r.Header.Clone()
	h.Del("Authorization")
	s.seen = append(s.seen, Call{Method: r.Method, Path: strings.TrimPrefix(r.URL.Path, s.prefix), Body: string(body), Header: h})
}
