package main

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// runCanary is the secret that must not be in a sandbox.
const runCanary = "sk_canary_0123456789abcdef"

// outBed is an ebb with one provider that only injects, and an upstream for it,
// both real processes or servers of this machine.
type outBed struct {
	t      *testing.T
	bin    string
	home   string
	work   string
	host   string   // name and port of the upstream
	env    []string // of ebb, in addition to the common ones
	hidden string   // directory that is hidden from ebb from now on; "" = none
	stderr bytes.Buffer
	also   http.HandlerFunc // handler of other paths; nil = an echo

	mu   sync.Mutex
	seen []*http.Request
}

// newOutBed needs root: a mount namespace makes the upstream's name resolve to
// loopback for ebb alone.
func newOutBed(t *testing.T) *outBed {
	t.Helper()
	counterpart.Need(t, "EBB_TEST_BWRAP")
	if os.Geteuid() != 0 {
		counterpart.Missing(t, "root", "run the tests as root")
	}
	git := counterpart.Program(t, "git")
	home, err := os.MkdirTemp("", "e") // t.TempDir has the name of the test, and a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	b := &outBed{t: t, bin: buildBinary(t), home: home, work: filepath.Join(t.TempDir(), "work")}
	if err := errors.Join(os.Chmod(home, 0o755), os.Mkdir(b.work, 0o755)); err != nil {
		t.Fatal(err)
	}
	b.chown()
	repos := t.TempDir()
	b.must(exec.Command(git, "init", "-q", "--bare", "-b", "main", filepath.Join(repos, "shop.git")))
	b.must(exec.Command(git, "--git-dir", filepath.Join(repos, "shop.git"), "config", "http.receivepack", "true"))
	backend := &cgi.Handler{Path: git, Args: []string{"http-backend"}, Root: "/git", Env: []string{"GIT_PROJECT_ROOT=" + repos, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=box"}}
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.seen = append(b.seen, r.Clone(t.Context()))
		b.mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/git/") {
			if _, password, _ := r.BasicAuth(); password != runCanary {
				w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			backend.ServeHTTP(w, r)
			return
		}
		if registry(w, r) {
			return
		}
		if b.also != nil {
			b.also(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, "%s by %s\n", r.URL.Path, r.Header.Get("Authorization")) // a careless server echoes the credential
	}))
	t.Cleanup(up.Close)
	at := netip.MustParseAddrPort(up.Listener.Addr().String())
	b.host = fmt.Sprintf("api.example.com:%d", at.Port())
	b.write("hosts", "127.0.0.1 localhost api.example.com\n")
	b.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw})))
	b.write("ebb.yaml", fmt.Sprintf(`
listen: 127.0.0.1:0
data_dir: %[1]s/data
egress: {ca_file: %[1]s/ca.pem, private_hosts: [api.example.com=127.0.0.1/32]}
providers:
  - name: shop
    kind: static
    resource: https://%[2]s
    config:
      secret: key
      hosts: [%[2]q]
      inject: {header: Authorization, prefix: "Bearer "}
      grants: {orders: {read: {methods: [GET], paths: ["/v1/**"]}}}
  - name: code
    kind: static
    resource: https://%[2]s/git
    config:
      secret: key
      hosts: [%[2]q]
      inject: {basic: {user: x-access-token}}
      grants: {shop: {read: {methods: [GET, POST], paths: ["/git/**"]}}}
  - name: npm
    kind: static
    resource: https://%[2]s/npm
    config:
      secret: key
      hosts: [%[2]q]
      inject: {header: Authorization, prefix: "Bearer "}
      grants: {packages: {read: {methods: [GET], paths: ["/npm/**"], encoded_slash: true}}}
  - name: pypi
    kind: static
    resource: https://%[2]s/pypi
    config:
      secret: key
      hosts: [%[2]q]
      inject: {basic: {user: __token__}}
      grants: {packages: {read: {methods: [GET], paths: ["/pypi/**"]}}}
  - name: kube
    kind: static
    resource: https://%[2]s/k8s
    config:
      secret: key
      hosts: [%[2]q]
      inject: {header: Authorization, prefix: "Bearer "}
      grants: {cluster: {read: {methods: [GET], paths: ["/api", "/api/**", "/apis", "/apis/**", "/version"]}}}
`, b.home, b.host))
	return b
}

func (b *outBed) chown() {
	if err := os.Chown(b.work, 4242, 4242); err != nil {
		b.t.Fatal(err)
	}
}

func (b *outBed) write(name, text string) {
	if err := os.WriteFile(filepath.Join(b.home, name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// more adds providers to the configuration.
func (b *outBed) more(text string) {
	path := filepath.Join(b.home, "ebb.yaml")
	before, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(before, text...), 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *outBed) must(cmd *exec.Cmd) string {
	b.t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// ebb is a command of ebb with an upstream name that resolves. Its environment
// must not reach a sandbox (E114).
func (b *outBed) ebb(args ...string) *exec.Cmd {
	script := `mount --bind "$0" /etc/hosts && exec "$@"`
	if b.hidden != "" {
		script = "mount -t tmpfs none '" + b.hidden + "' && " + script
	}
	all := append([]string{"--mount", "--propagation", "slave", "sh", "-c", script, filepath.Join(b.home, "hosts"), b.bin, "--config", filepath.Join(b.home, "ebb.yaml")}, args...)
	cmd := exec.Command("unshare", all...)
	cmd.Dir, cmd.Env = b.work, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.home, "SECRET_OF_THE_RUNNER=canary"}
	cmd.Env = append(cmd.Env, b.env...)
	return cmd
}

// serve starts an ebb for the commands that follow.
func (b *outBed) serve() {
	b.t.Helper()
	cmd := b.ebb("serve")
	cmd.Stdout, cmd.Stderr = io.Discard, &b.stderr
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if strings.Contains(b.stderr.String(), runCanary) {
			b.t.Error("the log holds the secret")
		}
		if b.t.Failed() {
			b.t.Logf("ebb says:\n%s", b.stderr.String())
		}
	})
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if b.ebb("secrets", "list").Run() == nil {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("ebb did not get ready:\n%s", b.stderr.String())
		}
	}
}

// put stores the secret.
func (b *outBed) put() {
	b.t.Helper()
	cmd := b.ebb("secrets", "put", "key")
	cmd.Stdin = strings.NewReader(runCanary + "\n")
	b.must(cmd)
}

// run runs a script in a sandbox and fails unless it exits with 0.
func (b *outBed) run(script string, flags ...string) (stdout, stderr string) {
	b.t.Helper()
	args := append([]string{"run", "--scope", "shop:**:* code:**:* npm:**:* pypi:**:* kube:**:*", "--credential", "KEY=shop:orders:read", "--env", "HOST=" + b.host}, flags...)
	cmd := b.ebb(append(args, "--", "sh", "-c", script)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		b.t.Fatalf("%s: %v\n%s%s", script, err, out.String(), errs.String())
	}
	if strings.Contains(out.String()+errs.String(), "canary") {
		b.t.Errorf("%s: the secret is in\n%s%s", script, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// authorizations are the Authorization headers of requests for a path.
func (b *outBed) authorizations(path string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, r := range b.seen {
		if r.URL.Path == path {
			all = append(all, r.Header.Get("Authorization"))
		}
	}
	return all
}

// TestRunToolsGoOut: unmodified tools, configured only by the sandbox's
// environment, reach the upstream with the secret, which is never in the
// sandbox.
func TestRunToolsGoOut(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	b.serve()
	b.put()
	for _, tool := range []struct{ program, script string }{
		{"curl", `curl -sS --fail -H "Authorization: Bearer $KEY" https://$HOST/v1/curl`},
		{"wget", `wget -q -O - --header "Authorization: Bearer $KEY" https://$HOST/v1/wget`},
		{"python3", `python3 -c 'import os, urllib.request as u; print(u.urlopen(u.Request("https://" + os.environ["HOST"] + "/v1/python3", headers={"Authorization": "Bearer " + os.environ["KEY"]})).read().decode())'`},
	} {
		t.Run(tool.program, func(t *testing.T) {
			if info, err := os.Stat("/usr/bin/" + tool.program); err != nil || info.IsDir() {
				counterpart.Missing(t, "tools", "install "+tool.program+" in /usr/bin, which is what a sandbox has")
			}
			out, _ := b.run(tool.script)
			if !strings.Contains(out, "/v1/"+tool.program+" by Bearer ") {
				t.Errorf("came back: %s", out)
			}
			if got := b.authorizations("/v1/" + tool.program); len(got) != 1 || got[0] != "Bearer "+runCanary {
				t.Errorf("arrived: %q", got)
			}
		})
	}
	t.Run("git", func(t *testing.T) {
		out, errs := b.run(`set -e; cd /tmp; export GIT_AUTHOR_NAME=b GIT_AUTHOR_EMAIL=b@b GIT_COMMITTER_NAME=b GIT_COMMITTER_EMAIL=b@b
			git clone -q https://$HOST/git/shop.git a; cd a; git checkout -q -b main; echo hello >f; git add f; git commit -qm first; git push -q origin main
			cd ..; git clone -q git@$HOST:git/shop.git c; cat c/f`, "--git", b.host+"=code:shop:read")
		if strings.TrimSpace(out) != "hello" {
			t.Errorf("%s%s", out, errs)
		}
	})
}

// TestRunHelpers: requests of tools to `ebb credential` in a sandbox, and the
// responses.
func TestRunHelpers(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	b.serve()
	b.put()
	const scope = " --scope shop:orders:read "
	for _, tt := range []struct{ script, want string }{
		{`printf 'protocol=https\nhost=h\n\n' | ebb credential git` + scope + `get`, `^username=x-access-token\npassword=ebb-placeholder\.lse_[0-9a-f]{32}\n$`},
		{`printf 'protocol=https\nhost=h\nusername=me\n\n' | ebb credential git` + scope + `get`, `^username=me\npassword=ebb-placeholder\.`},
		{`printf 'protocol=http\nhost=h\n\n' | ebb credential git` + scope + `get`, `^$`},
		{`printf 'protocol=https\nhost=h\npassword=x\n\n' | ebb credential git` + scope + `store; ebb credential git` + scope + `erase </dev/null`, `^$`},
		{`printf 'protocol=https\n\n' | ebb credential git --scope shop:orders:write get; echo code $?`, `^quit=1\ncode [34]\n$`},
		{`printf nonsense | ebb credential git` + scope + `get; echo code $?`, `^code 2\n$`},
		{`echo registry.example.com | ebb credential docker` + scope + `get`, `^\{"ServerURL":"registry.example.com","Username":"ebb","Secret":"ebb-placeholder\.lse_[0-9a-f]{32}"\}\n$`},
		{`ebb credential docker` + scope + `list`, `^\{\}\n$`},
		{`ebb credential docker` + scope + `sing; echo code $?`, `^code 2\n$`},
		{`ebb credential kubectl` + scope, `^\{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":\{"token":"ebb-placeholder\.lse_[0-9a-f]{32}","expirationTimestamp":"20[^"]*"\}\}\n$`},
		{`KUBERNETES_EXEC_INFO='{"apiVersion":"client.authentication.k8s.io/v1beta1"}' ebb credential kubectl` + scope, `^\{"apiVersion":"client.authentication.k8s.io/v1beta1",`},
		{`KUBERNETES_EXEC_INFO='{"apiVersion":"client.authentication.k8s.io/v2"}' ebb credential kubectl` + scope + `; echo code $?`, `^code 2\n$`},
		{`ebb credential aws` + scope, `^\{"Version":1,"AccessKeyId":"ebb-placeholder\.lse_[0-9a-f]{32}","SecretAccessKey":"stays-in-ebb","Expiration":"20[^"]*"\}\n$`},
		{`ebb credential aws; echo code $?`, `^code 2\n$`},
	} {
		if out, stderr := b.runWithout(tt.script); !regexp.MustCompile(tt.want).MatchString(out) {
			t.Errorf("%s: %q, want %s\n%s", tt.script, out, tt.want, stderr)
		}
	}
}

// TestRunOutIsTheSandboxs: (E76, E77) a placeholder works only in its own sandbox
// while that runs, only for its scope, and nowhere else.
func TestRunOutIsTheSandboxs(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	b.env = []string{"HTTPS_PROXY=http://127.0.0.1:1"} // no sandbox uses it (E30)
	b.serve()
	b.put()
	const get = `code() { curl -sS -o body -w '%{http_code}\n' -H "Authorization: Bearer $1" "$2"; cat body >>bodies; }; `
	out, stderr := b.run(get + `echo "$KEY"; code "$KEY" https://$HOST/v1/mine; code "$KEY" https://$HOST/other; curl -sS -o /dev/null -w '%{http_code}\n' -X POST -H "Authorization: Bearer $KEY" https://$HOST/v1/mine; code mine https://$HOST/v1/own; curl -sS https://example.org/ 2>&1 | head -c 60; curl -sS -m 5 --noproxy '*' http://169.254.169.254/ 2>&1 | head -c 60; env >environment`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) < 5 || lines[1] != "200" || lines[2] != "403" || lines[3] != "403" || lines[4] == "200" {
		t.Errorf("%s%s", out, stderr)
	}
	said := regexp.MustCompile(`shop:orders:read  revoked  1 request\(s\), 2 denied, 0 B sent, [0-9]+ B received, its secret was redacted in responses 1 time\(s\)\n`)
	if !strings.Contains(stderr, "1 credential(s) revoked") || !said.MatchString(stderr) || !strings.Contains(stderr, "without a listed credential: 0 request(s), 2 denied\n") {
		t.Errorf("it says at the end\n%s", stderr)
	}
	for _, name := range []string{"environment", "bodies"} {
		text, err := os.ReadFile(filepath.Join(b.work, name))
		if err != nil || bytes.Contains(text, []byte("canary")) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
	// The placeholder of an ended task, in another sandbox.
	out, _ = b.run(get + `code ` + lines[0] + ` https://$HOST/v1/mine; code "$KEY" https://$HOST/v1/mine`)
	if got := strings.Fields(out); len(got) != 2 || got[0] == "200" || got[1] != "200" {
		t.Errorf("an old placeholder and a live one: %s", out)
	}
	if n := len(b.authorizations("/v1/mine")); n != 2 {
		t.Errorf("%d requests arrived", n)
	}
	if n := len(b.authorizations("/other")) + len(b.authorizations("/v1/own")); n != 0 {
		t.Errorf("%d requests arrived that were not to", n)
	}
}

// TestRunOwnEbb: if no ebb is running, the run starts its own, with the data
// directory that the next one uses.
func TestRunOwnEbb(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	out, stderr := b.runWithout(`echo in $EBB_TASK_ID`)
	if !strings.HasPrefix(out, "in tsk_") || !strings.Contains(stderr, "this run starts its own") || !strings.Contains(stderr, "ended: 0 credential(s) revoked") {
		t.Errorf("%s%s", out, stderr)
	}
	b.serve()
	if list := b.must(b.ebb("task", "list", "-o", "csv")); !strings.Contains(list, strings.TrimSpace(strings.TrimPrefix(out, "in "))+",closed") {
		t.Errorf("the next ebb knows\n%s", list)
	}
}

// runWithout runs a script in a sandbox without credentials.
func (b *outBed) runWithout(script string) (stdout, stderr string) {
	b.t.Helper()
	cmd := b.ebb("run", "--scope", "shop:**:*", "--", "sh", "-c", script)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		b.t.Fatalf("%s: %v\n%s%s", script, err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}
