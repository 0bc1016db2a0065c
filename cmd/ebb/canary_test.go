package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
)

// birds are the secrets of a canary test by name. Each differs from all other
// text, and contains the characters that the encodings of brokertest.Hides
// change.
type birds struct {
	mu sync.Mutex
	m  map[string]string
}

func (b *birds) hatch(what string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	tail := "-/+.~" + rand.Text()
	if what == "client secret" || strings.HasPrefix(what, "refresh") { // the others must fit into a header
		tail = `-<&"'%>` + tail
	}
	s := "cAn4ry-" + strings.ReplaceAll(what, " ", "-") + tail
	b.m[what] = s
	return s
}

func (b *birds) all() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]string{}
	for k, v := range b.m {
		out[k] = v
	}
	return out
}

// careless is an authorization server that writes every secret it knows into
// each response other than a token.
type careless struct {
	*birds
	secret string

	mu     sync.Mutex
	n      int
	fault  string // of the token endpoint
	fails  int    // number of next revocations that succeed but respond with an error
	active map[string]bool
}

func (s *careless) set(fault string, fails int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.fails = fault, fails
}

func (s *careless) alive() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, is := range s.active {
		if is {
			n++
		}
	}
	return n
}

func (s *careless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, sent, _ := r.BasicAuth()
	if plain, _ := url.QueryUnescape(sent); plain != s.secret || r.ParseForm() != nil {
		http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	told, _ := json.Marshal(s.all())
	w.Header().Set("X-Debug", strings.ReplaceAll(string(told), "\n", " "))
	blurt := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":%q,"error_description":%q,"error_uri":"https://x/?%s"}`, code, told, url.QueryEscape(string(told)))
	}
	switch r.URL.Path {
	case "/token":
		s.token(w, r, blurt)
	case "/revoke":
		s.active[r.FormValue("token")] = false
		if s.fails > 0 {
			s.fails--
			blurt(http.StatusInternalServerError, "server_error")
		}
	case "/introspect":
		_ = json.NewEncoder(w).Encode(map[string]any{"active": s.active[r.FormValue("token")], "sub": string(told)})
	}
}

func (s *careless) token(w http.ResponseWriter, r *http.Request, blurt func(int, string)) {
	s.n++
	access := s.hatch(fmt.Sprint("access ", s.n))
	s.active[access] = true
	answer := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 3600, "scope": r.FormValue("scope")}
	switch s.fault {
	case "error", "refused":
		s.active[access] = false
		blurt(map[string]int{"error": 500, "refused": 400}[s.fault], map[string]string{"error": "server_error", "refused": "invalid_scope"}[s.fault])
		return
	case "garbage", "cut":
		s.active[access] = false // the client never learns this token
		raw, _ := json.Marshal(answer)
		fmt.Fprintf(w, "%s <html> %s", raw[:len(raw)-1], access)
		if s.fault == "cut" {
			panic(http.ErrAbortHandler)
		}
		return
	case "wider":
		answer["scope"] = "files.read " + access
	case "odd":
		answer["token_type"] = access
	}
	answer["refresh_token"] = s.hatch(fmt.Sprint("refresh ", s.n))
	_ = json.NewEncoder(w).Encode(answer)
}

// shore is one ebb of a canary test with all its output.
type shore struct {
	t    *testing.T
	bin  string
	dir  string
	env  []string
	said bytes.Buffer // output of the command line, except responses that are secrets
	log  bytes.Buffer // log of the server
}

// run runs a command and returns its standard output. The output is kept,
// unless the response is a secret.
func (s *shore) run(in string, answers bool, args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.bin, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = s.dir, s.env, strings.NewReader(in)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		s.t.Fatalf("ebb %v: %v", args, err)
	}
	s.said.Write(errs.Bytes())
	if !answers || err != nil {
		s.said.Write(out.Bytes())
	}
	return out.String()
}

// find extracts a part of a command's output.
func (s *shore) find(form, text string) string {
	s.t.Helper()
	m := regexp.MustCompile(form).FindStringSubmatch(text)
	if m == nil {
		s.t.Fatalf("%s is not in %s\n%s", form, text, s.log.String())
	}
	return m[1]
}

func (s *shore) get(path string) []byte {
	s.t.Helper()
	where, err := os.ReadFile(filepath.Join(s.dir, ".local/share/ebb", urlFile))
	if err != nil {
		return nil
	}
	resp, err := http.Get(strings.TrimSpace(string(where)) + path)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return nil
	}
	return body
}

func (s *shore) until(what string, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("never: %s\n%s", what, s.log.String())
		}
	}
}

// files returns every file in the directory except those that the test created.
func (s *shore) files() []byte {
	var out []byte
	err := filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), "mine-") {
			return err
		}
		raw, err := os.ReadFile(path)
		out = append(out, raw...)
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
	return out
}

// I8, E92: the secret of a provider's configuration, an upstream's refresh and
// access tokens, which are revocation handles too, and ebb's own tokens and
// tickets appear only in the responses that return them. They are not in the
// log at debug level, the audit log, the metrics, an error, the database,
// Redis, or output of the command line. The upstream writes them into every
// response.
//
//ebb:invariant I8
func TestCanary(t *testing.T) {
	t.Parallel()
	bin := buildBinary(t)
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		canary(t, bin, nil)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		canary(t, bin, redistest.New(t))
	})
}

func canary(t *testing.T, bin string, redis *redistest.Server) {
	flock := &birds{m: map[string]string{}}
	server := &careless{birds: flock, secret: flock.hatch("client secret"), active: map[string]bool{}}
	up := httptest.NewServer(server)
	t.Cleanup(up.Close)
	s := &shore{t: t, bin: bin, dir: t.TempDir()}
	s.env = []string{"HOME=" + s.dir, "PATH=" + os.Getenv("PATH"), "EBB_LISTEN=127.0.0.1:0", "EBB_LOG_LEVEL=debug", "EBB_LIMITS_CHECKPOINT=1s"}
	if redis != nil {
		s.env = append(s.env, "EBB_REDIS_ADDRS="+redis.Addr)
	}
	for name, text := range map[string]string{
		"mine-secret": server.secret,
		"mine-ebb.yaml": fmt.Sprintf(`providers:
  - {name: local, kind: jwt, resource: https://local.example.com}
  - name: files
    kind: oauth
    resource: https://files.example.com
    config:
      token_endpoint: %[1]s/token
      revocation_endpoint: %[1]s/revoke
      introspection_endpoint: %[1]s/introspect
      revocation_bound: 1
      client: {id: ebb, auth: client_secret_basic, secret_file: %[2]s}
      grants:
        drive: {refresh_token: drive-ann, actions: {read: files.read}}
`, up.URL, filepath.Join(s.dir, "mine-secret")),
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	serve := exec.Command(bin, "serve", "--config", "mine-ebb.yaml")
	serve.Dir, serve.Env, serve.Stdout, serve.Stderr = s.dir, s.env, &s.log, &s.log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceValue(func() error { _ = serve.Process.Signal(syscall.SIGINT); return serve.Wait() })
	t.Cleanup(func() { _ = stop() })
	s.until("ready", func() bool { return s.get("/readyz") != nil })

	lease := s.walk(server)

	metrics, readiness := s.get("/metrics"), s.get("/readyz")
	running := s.files() // including the write-ahead log
	if err := stop(); err != nil {
		t.Errorf("serve: %v", err)
	}
	places := map[string][]byte{
		"the command line": s.said.Bytes(), "the log": s.log.Bytes(), "the metrics": metrics, "the readiness": readiness,
		"the files": running, "the files at rest": s.files(),
	}
	if redis != nil {
		places["Redis"] = redis.Written()
	}
	for place, data := range places {
		if probes := place == "the metrics" || place == "the readiness"; len(data) == 0 || !probes && !bytes.Contains(data, []byte(lease)) {
			t.Errorf("%s: not even the lease is found there", place)
		}
		for what, secret := range flock.all() {
			if form := brokertest.Hides(data, secret); form != "" {
				i := max(bytes.Index(data, []byte(secret)), 0)
				t.Errorf("%s: holds the %s (%s): ...%s", place, what, form, data[max(i-200, 0):min(i+20, len(data))])
			}
		}
	}
	if n := server.alive(); n != 0 {
		t.Errorf("%d tokens are alive at the server", n)
	}
}

// walk performs every operation of the command line with a third party, and
// returns one lease ID of it.
func (s *shore) walk(server *careless) string {
	s.run(server.hatch("refresh 0"), false, "secrets", "put", "drive-ann")
	for _, format := range []string{"table", "json", "csv"} {
		s.run("", false, "secrets", "list", "-o", format)
	}
	opened := s.run("", true, "task", "open", "--scope", "files:drive:* local:**:*", "--ticket", "-o", "json")
	task, ticket := s.find(`"id": "(tsk_[0-9a-f]+)"`, opened), s.find(`"ticket": "([^"]+)"`, opened)
	server.plant("ticket", ticket)
	s.run("", true, "token", "--key", "mine-sandbox.key", "--ticket", ticket)
	ask := func(scope string) string {
		return s.run("", true, "token", "--key", "mine-sandbox.key", "--scope", scope, "-o", "json")
	}
	server.plant("own token", s.find(`"access_token": "([^"]+)"`, ask("local:a/b:read")))
	lease := ""
	for range 2 {
		out := ask("files:drive:read")
		lease = s.find(`"lease_id": "(lse_[0-9a-f]+)"`, out)
		if !strings.Contains(out, "cAn4ry-access") {
			s.t.Fatalf("the answer is not the token: %s\n%s", out, s.log.String())
		}
	}
	for _, fault := range []string{"refused", "error", "garbage", "cut", "wider", "odd"} {
		server.set(fault, 0)
		if out := ask("files:drive:read"); out != "" {
			s.t.Errorf("%s: ebb answered %s", fault, out)
		}
	}
	server.set("", 3)
	s.run("", false, "providers", "check", "files", "--scope", "files:drive:read")
	s.run("", false, "leases", "revoke", lease)
	for _, format := range []string{"table", "json", "csv"} {
		s.run("", false, "leases", "list", "--task", task, "-o", format)
		s.run("", false, "requests", "list", "-o", format)
		s.run("", false, "audit", "list", "-o", format)
	}
	s.run("", false, "task", "complete", task)
	s.until("nothing is alive at the server", func() bool { return server.alive() == 0 })
	for _, args := range [][]string{
		{"leases", "show", lease, "-o", "json"}, {"task", "show", task, "-o", "json"}, {"task", "receipt", "show", task}, {"audit", "export"}, {"doctor"}, {"config", "show"},
		{"providers", "list"}, {"secrets", "remove", "drive-ann"}, {"leases", "list", "-o", "json"},
	} {
		s.run("", false, args...)
	}
	return lease
}

func (b *birds) plant(what, secret string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.m[what] = secret
}
