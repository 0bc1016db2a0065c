package gitpush_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/gitpush"
)

// bed is a git server behind a proxy that judges every push.
type bed struct {
	t      *testing.T
	git    string
	home   string
	server string // the bare repository
	url    string // its address through the proxy
	ask    bool   // answer whether a commit is an ancestor at the server

	mu     sync.Mutex
	pushes []push
}

// push is a judged push.
type push struct {
	facts content.Facts
	err   error
}

// newBed makes a bed whose repository is made with args of git init.
func newBed(t *testing.T, args ...string) *bed {
	t.Helper()
	b := &bed{t: t, git: counterpart.Program(t, "git"), home: t.TempDir()}
	b.server = filepath.Join(b.home, "srv", "o", "r.git")
	b.run("", append([]string{"init", "-q", "--bare", "-b", "main", b.server}, args...)...)
	for _, setting := range []string{"http.receivepack=true", "receive.certNonceSeed=seed", "receive.advertisePushOptions=true", "gc.auto=0", "receive.denyDeleteCurrent=ignore", "receive.shallowUpdate=true"} {
		name, value, _ := strings.Cut(setting, "=")
		b.run(b.server, "config", name, value)
	}
	proxy := httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(proxy.Close)
	b.url = proxy.URL + "/o/r.git"
	return b
}

// env is the environment of each git process: nothing of the machine's configuration.
func (b *bed) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + b.home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
	}
}

// try runs git in a folder and returns its output.
func (b *bed) try(dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(b.t.Context(), b.git, args...) //nolint:gosec // the arguments are the test's
	cmd.Dir, cmd.Env = dir, b.env()
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (b *bed) run(dir string, args ...string) string {
	b.t.Helper()
	out, err := b.try(dir, args...)
	if err != nil {
		b.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return out
}

// serve judges a push and passes it to git http-backend.
func (b *bed) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
		facts, err := b.judge(r)
		b.mu.Lock()
		b.pushes = append(b.pushes, push{facts, err})
		b.mu.Unlock()
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
	}
	b.backend(w, r)
}

// judge reads a push, and checks that exactly the decoded bytes of its body are left to forward.
func (b *bed) judge(r *http.Request) (content.Facts, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return content.Facts{}, err
	}
	compressed := r.Header.Get("Content-Encoding") != ""
	r.Body = io.NopCloser(bytes.NewReader(sent))
	var ancestor gitpush.Ancestor
	if b.ask {
		ancestor = b.ancestor
	}
	push, err := gitpush.Read(r.Context(), r, ancestor)
	if err != nil {
		return content.Facts{}, err
	}
	facts := push.Facts
	left, err := io.ReadAll(r.Body)
	if err != nil {
		return facts, err
	}
	if r.Header.Get("Content-Encoding") != "" || !compressed && !bytes.Equal(left, sent) {
		b.t.Errorf("%d bytes came and %d are forwarded", len(sent), len(left))
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(left)), int64(len(left)), nil // CGI has no chunks
	return facts, nil
}

func (b *bed) ancestor(_ context.Context, old string, heads []string) (bool, error) {
	for _, head := range heads {
		if _, err := b.try(b.server, "merge-base", "--is-ancestor", old, head); err == nil {
			return true, nil
		}
	}
	return false, nil
}

func (b *bed) backend(w http.ResponseWriter, r *http.Request) {
	(&cgi.Handler{Path: b.git, Args: []string{"http-backend"}, Stderr: io.Discard, Env: append(b.env(), "GIT_PROJECT_ROOT="+filepath.Join(b.home, "srv"), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=box")}).ServeHTTP(w, r)
}

// refs returns the server's refs.
func (b *bed) refs() map[string]string {
	b.t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(b.run(b.server, "for-each-ref", "--format=%(objectname) %(refname)")) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = id
	}
	return all
}

// clone returns a working copy.
func (b *bed) clone(args ...string) string {
	b.t.Helper()
	dir, err := os.MkdirTemp(b.home, "clone")
	if err != nil {
		b.t.Fatal(err)
	}
	b.run("", append(append([]string{"clone", "-q"}, args...), b.url, dir)...)
	return dir
}

// commit adds a file with a text, and commits it.
func (b *bed) commit(dir, text string) string {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "file-"+text), []byte(strings.Repeat(text, 50)), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.run(dir, "add", "-A")
	b.run(dir, "commit", "-q", "-m", text)
	return b.run(dir, "rev-parse", "HEAD")
}

// taken returns the operations of the pushes since the last call, as "action ref" with the count of
// commits and the reason of a force, and their facts.
func (b *bed) taken() (ops []string, facts []content.Facts) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pushes {
		if p.err != nil {
			ops = append(ops, "refused: "+p.err.Error())
		}
		for _, op := range p.facts.Operations {
			ops = append(ops, strings.TrimSpace(fmt.Sprint(op.Action, " ", op.Object, " ", op.Details["commits"], op.Details["why"])))
		}
		facts = append(facts, p.facts)
	}
	b.pushes = nil
	return ops, facts
}

// after returns refs as the facts say that they become.
func after(refs map[string]string, facts ...content.Facts) (map[string]string, error) {
	refs = maps.Clone(refs)
	for _, f := range facts {
		for _, op := range f.Operations {
			if refs[op.Object] != op.Details["old"]+op.Details["stated"] {
				return nil, fmt.Errorf("%s %s: the server has %q, the facts say %q", op.Action, op.Object, refs[op.Object], op.Details["old"])
			}
			if refs[op.Object] = op.Details["new"]; refs[op.Object] == "" {
				delete(refs, op.Object)
			}
		}
	}
	return refs, nil
}

// keygen makes an SSH key.
func (b *bed) keygen(path string) {
	b.t.Helper()
	if out, err := exec.CommandContext(b.t.Context(), counterpart.Program(b.t, "ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", path).CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
}
