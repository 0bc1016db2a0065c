package githubtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/routers"
)

// Server is a GitHub with one App. Every method is safe while it serves.
type Server struct {
	URL string // of the REST API
	Git string // where git clones from

	t      testing.TB
	now    func() time.Time
	prefix string
	http   *httptest.Server
	router routers.Router
	stop   chan struct{} // closed: hanging answers end
	signer *rsa.PrivateKey

	mu      sync.Mutex
	app     App
	places  map[int64]*Installation
	repos   map[int64]*Repository
	tokens  map[string]*token
	faults  []*Fault
	limits  limits
	seen    []Call
	serial  int
	skew    time.Duration
	format  string
	lag     time.Duration
	noExtra bool
	alter   func(map[string]any)
}

// App is the App that the server knows.
type App struct {
	ID       int64
	ClientID string
	Slug     string
	Keys     []*rsa.PublicKey // any of them may sign
	Deleted  bool
}

// Installation is the App at one owner.
type Installation struct {
	ID           int64
	Owner        string
	Permissions  map[string]string
	Repositories []int64
	Suspended    bool
}

// Repository is one of an owner.
type Repository struct {
	ID     int64
	Owner  string
	Name   string
	Public bool
}

// Call is one request that arrived.
type Call struct {
	Method, Path string
	Body         string
	Header       map[string][]string // without Authorization
}

// Config of a server. All but Now may be zero.
type Config struct {
	Now    func() time.Time
	Prefix string // of the API's path: /api/v3 for an Enterprise Server, where git has the same host
}

// New starts a server with the App 4711 ("Iv23liEbbTest00000001") and no
// installation. It ends with the test, which fails when anything that was sent or
// answered is not as GitHub documents it.
func New(t testing.TB, c Config) *Server {
	t.Helper()
	s := &Server{
		t: t, now: c.Now, prefix: c.Prefix, stop: make(chan struct{}), signer: Key(t), format: Opaque,
		app:    App{ID: 4711, ClientID: "Iv23liEbbTest00000001", Slug: "ebb-test"},
		places: map[int64]*Installation{}, repos: map[int64]*Repository{}, tokens: map[string]*token{},
	}
	var err error
	if s.router, err = router(); err != nil {
		t.Fatal(err)
	}
	s.http = httptest.NewTLSServer(s.handler())
	s.URL, s.Git = s.http.URL+c.Prefix, s.http.URL
	t.Cleanup(func() {
		close(s.stop)
		s.http.Close()
	})
	return s
}

// spare is made once: making a key takes a good part of a second.
var spare = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// Key is a private key, the same in the whole process.
func Key(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	key, err := spare()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Trust lets the App sign with these keys, and with no others.
func (s *Server) Trust(keys ...*rsa.PrivateKey) {
	s.Set(func(a *App) {
		a.Keys = nil
		for _, k := range keys {
			a.Keys = append(a.Keys, &k.PublicKey)
		}
	})
}

// WriteKey writes a key the way GitHub hands it out, for private_key_file.
func (s *Server) WriteKey(file string, key *rsa.PrivateKey) {
	s.write(file, &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

// CAFile is a file with the server's certificate, for ca_file.
func (s *Server) CAFile() string {
	file := filepath.Join(s.t.TempDir(), "ca.pem")
	s.write(file, &pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	return file
}

func (s *Server) write(file string, b *pem.Block) {
	if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
		s.t.Fatal(err)
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

// Suspend suspends an installation, or ends that.
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

// Format is what tokens look like that do not ask for a format. lag is how long a
// revoked one of the format goes on working: GitHub documents nothing for
// Stateless.
func (s *Server) Format(format string, lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.format, s.lag = format, lag
}

// Skew sets the server's clock ahead of Config.Now.
func (s *Server) Skew(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = d
}

// AddMetadata says whether metadata:read comes with every token unasked, which it
// does unless this was called with false.
func (s *Server) AddMetadata(add bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noExtra = !add
}

// Alter lets a test spoil the body of every 201 to a mint. nil ends that.
func (s *Server) Alter(how func(body map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alter = how
}

// Calls is what has arrived so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.seen...)
}

// Living counts the tokens that are accepted.
func (s *Server) Living() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, t := range s.tokens {
		if s.lives(t) {
			n++
		}
	}
	return n
}

// clock is the server's time. The lock is held.
func (s *Server) clock() time.Time { return s.now().Add(s.skew) }
