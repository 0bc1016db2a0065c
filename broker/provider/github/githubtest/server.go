package githubtest

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a fake GitHub with one App. All methods may be called while it serves.
type Server struct {
	URL string // base URL of the REST API
	Git string // base URL of git repositories

	t      testing.TB
	now    func() time.Time
	prefix string
	http   *httptest.Server
	stop   chan struct{} // closed to end responses that hang
	signer *rsa.PrivateKey

	contract *contract
	bare     bareRepositories

	mu      sync.Mutex
	app     App
	places  installations
	repos   repositories
	tokens  map[string]*token
	faults  faults
	limits  limits
	seen    []Call
	serial  int
	skew    time.Duration
	format  string
	lag     time.Duration
	noExtra bool
	alter   func(map[string]any)

	conversations []*conversation
}

// App is the App that the server knows.
type App struct {
	ID       int64
	ClientID string
	Slug     string
	Keys     []*rsa.PublicKey // each of them may sign
	Deleted  bool
}

// Installation is the installation of the App at one owner.
type Installation struct {
	ID           int64
	Owner        string
	Permissions  map[string]string
	Repositories []int64
	Suspended    bool
}

// Repository is a repository of an owner.
type Repository struct {
	ID     int64
	Owner  string
	Name   string
	Public bool
}

// Call is one received request.
type Call struct {
	Method, Path string
	Body         string
	Header       map[string][]string // without Authorization
}

// Config of a server. All but Now may be zero.
type Config struct {
	Now    func() time.Time
	Prefix string // prefix of the API's path: /api/v3 for an Enterprise Server, where git has the same host
}

// New starts a server with the App 4711 ("Iv23liEbbTest00000001") and no installation. It
// ends with the test, which fails when a request or response is not as GitHub documents it.
func New(t testing.TB, c Config) *Server {
	t.Helper()
	s := &Server{
		t: t, now: c.Now, prefix: c.Prefix, stop: make(chan struct{}), signer: Key(t), format: Opaque,
		app:    App{ID: 4711, ClientID: "Iv23liEbbTest00000001", Slug: "ebb-test"},
		places: installations{}, repos: repositories{}, tokens: map[string]*token{},
	}
	routes, err := router()
	if err != nil {
		t.Fatal(err)
	}
	s.contract = &contract{t: t, prefix: c.Prefix, router: routes}
	s.http = httptest.NewTLSServer(s.handler())
	s.URL, s.Git = s.http.URL+c.Prefix, s.http.URL
	t.Cleanup(func() {
		close(s.stop)
		s.http.Close()
	})
	return s
}

// spare is made once, because making a key takes a large part of a second.
var spare = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// Key returns a private key, the same in the whole process.
func Key(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	key, err := spare()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Trust sets the keys that the App may sign with.
func (s *Server) Trust(keys ...*rsa.PrivateKey) {
	s.Set(func(a *App) {
		a.Keys = nil
		for _, k := range keys {
			a.Keys = append(a.Keys, &k.PublicKey)
		}
	})
}

// WriteKey writes a key in GitHub's form, for private_key_file.
func (s *Server) WriteKey(file string, key *rsa.PrivateKey) {
	write(s.t, file, &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

// CAFile returns a file with the server's certificate, for ca_file.
func (s *Server) CAFile() string {
	file := filepath.Join(s.t.TempDir(), "ca.pem")
	write(s.t, file, &pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	return file
}

func write(t testing.TB, file string, b *pem.Block) {
	if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Set changes the App.
func (s *Server) Set(change func(*App)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.app)
}

// Install installs the App, or changes an installation.
func (s *Server) Install(in Installation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.Permissions = maps.Clone(in.Permissions)
	s.places[in.ID] = &in
}

// Suspend suspends an installation, or ends its suspension.
func (s *Server) Suspend(id int64, suspended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[id].Suspended = suspended
}

// Token formats.
const (
	Opaque    = "opaque"
	Stateless = "stateless"
)

// Format sets the format of tokens whose request has none. lag is how long a revoked token
// of that format remains valid: GitHub does not document it for Stateless.
func (s *Server) Format(format string, lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.format, s.lag = format, lag
}

// Skew moves the server's clock ahead of Config.Now.
func (s *Server) Skew(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = d
}

// AddMetadata sets whether every token has metadata:read without a request; the default is
// true.
func (s *Server) AddMetadata(add bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noExtra = !add
}

// Alter lets a test change the body of every 201 response to a mint; nil ends that.
func (s *Server) Alter(how func(body map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alter = how
}

// Calls returns the calls received so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.seen...)
}

// Living returns the number of valid tokens.
func (s *Server) Living() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, t := range s.tokens {
		if t.lives(s.clock()) {
			n++
		}
	}
	return n
}

// clock returns the server's time. The caller has the lock.
func (s *Server) clock() time.Time { return s.now().Add(s.skew) }

// reply is a response: a status and a body to encode as JSON.
type reply struct {
	status int
	body   any // nil for none
	raw    []byte
	header http.Header
}

// say returns an error in GitHub's form.
func say(status int, message string) reply {
	return reply{status: status, body: map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest", "status": http.StatusText(status)}}
}

// request is the input of a route.
type request struct {
	*http.Request
	body []byte
}

// handler adds the common steps to every route: fault, rate limit, call, check.
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
	api("GET /repos/{owner}/{repo}/issues", s.asToken("issues:read", listIssues))
	api("POST /repos/{owner}/{repo}/issues", s.asToken("issues:write", s.openIssue))
	compare := s.asToken("contents:read", func(r request, _ *token) reply { return s.bare.compare(r) }) // its documented response is too large for the shortened description
	mux.HandleFunc("GET "+s.prefix+"/repos/{owner}/{repo}/compare/{basehead}", func(w http.ResponseWriter, r *http.Request) { s.frame(w, r, false, compare) })
	graphQL := s.asToken("", func(r request, t *token) reply { return answerGraphQL(s, r, t) })
	mux.HandleFunc("POST "+strings.TrimSuffix(s.prefix, "/v3")+"/graphql", func(w http.ResponseWriter, r *http.Request) { s.frame(w, r, false, graphQL) })
	git := func(w http.ResponseWriter, r *http.Request) { s.frame(w, r, false, s.git) }
	mux.HandleFunc("GET /{owner}/{repo}/info/refs", git)
	mux.HandleFunc("POST /{owner}/{repo}/{service}", git)
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
	fault := s.faults.take(r, strings.TrimPrefix(r.URL.Path, s.prefix))
	s.mu.Unlock()
	if documented {
		s.contract.checkRequest(r, body)
	}
	if fault != nil && fault.instead(w, r) {
		return
	}
	s.mu.Lock()
	out, limited := s.limits.limited(r, s.clock())
	if !limited {
		out = do(request{r, body})
	}
	head := http.Header{
		"Date": {s.clock().UTC().Format(http.TimeFormat)}, "X-Github-Request-Id": {"EBB:TEST"},
		"Content-Type": {"application/json; charset=utf-8"}, "X-Github-Media-Type": {"github.v3; format=json"},
	}
	s.limits.budget(head, s.clock())
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
		s.contract.checkAnswer(r, rec)
	}
	if fault != nil && fault.after(w, rec) {
		return
	}
	maps.Copy(w.Header(), head)
	w.WriteHeader(out.status)
	_, _ = w.Write(out.raw)
}

// asDocumented is false while a test changes responses.
func (s *Server) asDocumented() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alter == nil
}

// note records a request without its credentials. The caller has the lock.
func (s *Server) note(r *http.Request, body []byte) {
	h := r.Header.Clone()
	h.Del("Authorization")
	s.seen = append(s.seen, Call{Method: r.Method, Path: strings.TrimPrefix(r.URL.Path, s.prefix), Body: string(body), Header: h})
}
