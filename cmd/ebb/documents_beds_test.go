package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/doctest"
)

// documentBeds are services, by the name in <!-- needs: NAME -->, that run outside the network of the
// page. Each function makes its service reachable from that network. It returns pairs of a text in the
// page and its replacement, such as the values that a reader fills in.
var documentBeds = map[string]func(*testing.T, *doctest.Shell) []string{
	"rgw": func(t *testing.T, shell *doctest.Shell) []string {
		at, err := url.Parse(counterpart.Need(t, "EBB_TEST_RGW"))
		if err != nil || at.User == nil {
			t.Fatal("EBB_TEST_RGW is not http://KEY:SECRET@host:port")
		}
		lend(t, shell, "127.0.0.1:7480", at.Host)
		secret, _ := at.User.Password()
		return []string{"AWS_ACCESS_KEY_ID=KEY AWS_SECRET_ACCESS_KEY=SECRET ", "AWS_ACCESS_KEY_ID=" + at.User.Username() + " AWS_SECRET_ACCESS_KEY=" + secret + " "}
	},
	"kube": func(t *testing.T, shell *doctest.Shell) []string {
		dir := counterpart.Need(t, "EBB_TEST_KUBE")
		read := func(name string) string {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(text))
		}
		host := strings.TrimPrefix(read("server"), "https://")
		lend(t, shell, host, host)
		config := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://%s", certificate-authority: "%s"}}], users: [{name: u, user: {token: "%s"}}]}`, host, filepath.Join(dir, "ca.pem"), read("admin.token"))
		return writeHome(t, shell, ".kube/config", config)
	},
	// An OpenID provider with one person, ann, who signs in with curl instead of a browser. ebb uses a
	// self-signed certificate, because the host name in the page is not in DNS.
	"node-op": func(t *testing.T, shell *doctest.Shell) []string {
		dir := filepath.Join(filepath.Dir(shell.Dir), "op")
		script, err := os.ReadFile("../../.ci/console/op.mjs")
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "op.mjs"), script, 0o600)
		}
		if err == nil {
			err = os.Symlink(filepath.Join(counterpart.Need(t, "EBB_TEST_NODE_OP"), "node_modules"), filepath.Join(dir, "node_modules"))
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := shell.Run("node-op", doctest.Step{Line: 1, Background: true, Want: &doctest.Output{Text: "{...}\n"},
			Text: "tail -f /dev/null | exec node " + dir + "/op.mjs https://ebb.example.com/signin/oidc/callback\n"})
		var op struct{ Issuer, Secret string }
		if err == nil {
			err = json.Unmarshal([]byte(out[max(strings.Index(out, "{"), 0):]), &op)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return []string{
			"(umask 077 && echo", "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ebb -addext subjectAltName=DNS:ebb.example.com -keyout tls.key -out tls.crt 2>openssl.log\n(umask 077 && echo",
			"public_url: https://ebb.example.com\n", "public_url: https://ebb.example.com\nlisten_unix: ebb.sock\ntls: {cert: tls.crt, key: tls.key}\n",
			"https://sso.example.com", op.Issuer, "the-client-secret", op.Secret, "approver: [leads]", "approver: [approvers]",
			"ebb audit list", `
visit() { curl -sS -L -c jar -b jar --cacert tls.crt --connect-to ebb.example.com:443:127.0.0.1:8420 "$@"; }
form() { sed -n 's|.*action="\([^"]*\)".*|` + op.Issuer + `\1|p'; }
login=$(visit https://ebb.example.com/signin/oidc | form)
consent=$(visit -d prompt=login -d login=ann -d password=key "$login" | form)
visit -d prompt=consent "$consent" >/dev/null
EBB_SOCKET=ebb.sock ebb audit list`,
		}
	},
	// The page downloads the published module. The test uses this repository and the module cache instead.
	"go": func(t *testing.T, _ *doctest.Shell) []string {
		out, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE").Output()
		if err != nil {
			t.Fatal(err)
		}
		dirs := strings.Fields(string(out))
		env := "GOMODCACHE=" + dirs[0] + " GOCACHE=" + dirs[1] + " GOPROXY=off GOFLAGS=-mod=mod CGO_ENABLED=0 "
		return []string{
			"go get github.com/ebb-broker/ebb/web/verify@latest",
			`sed -n '/^toolchain /p; /^require (/,/^)/p' "$REPOSITORY/go.mod" >>go.mod && cp "$REPOSITORY/go.sum" . &&
` + env + `go mod edit -replace "github.com/ebb-broker/ebb=$REPOSITORY" && ` + env + `go mod edit -require github.com/ebb-broker/ebb@v0.0.0`,
			"go run ", env + "go run ",
		}
	},
}

// documentChanges lists, by page, pairs of a command that cannot run in the test and its replacement.
var documentChanges = map[string][]string{
	// The test has an API server without controllers, so commands must finish the removal of a namespace.
	"docs/how-to/connect-kubernetes.md": {
		"kubectl delete -f accounts.yaml -f ebb-account.yaml",
		"kubectl delete -f accounts.yaml -f ebb-account.yaml --wait=false; kubectl delete configmap prices --namespace shop\n" + finalize("agents", "shop", "ebb"),
	},
	"docs/how-to/deploy-on-kubernetes.md": {
		"kubectl delete -k production", "kubectl delete -k production --wait=false\n" + `kubectl patch --namespace ebb persistentvolumeclaim ebb-keys --patch '{"metadata": {"finalizers": null}}'
kubectl delete namespace agents --wait=false
` + finalize("ebb", "agents"),
		"kubectl label namespace agents", "kubectl create namespace agents && kubectl label namespace agents",
	},
}

// finalize returns commands that complete the deletion of namespaces, as a controller does.
func finalize(names ...string) (commands string) {
	for _, name := range names {
		commands += "kubectl get namespace " + name + " -o json | jq '.spec.finalizers = []' | kubectl replace --raw /api/v1/namespaces/" + name + "/finalize -f - >/dev/null\n"
	}
	return commands
}

// writeHome writes a file into the home directory of the page.
func writeHome(t *testing.T, shell *doctest.Shell, name, text string) []string {
	t.Helper()
	path := filepath.Join(filepath.Dir(shell.Dir), "home", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return nil
}

// lend forwards connections from an address in the network of the page to a server outside it.
func lend(t *testing.T, shell *doctest.Shell, address, server string) {
	t.Helper()
	listener, err := shell.Listen(address)
	if err != nil {
		counterpart.Missing(t, "root", fmt.Sprintf("run the tests as root: the network of the page cannot reach %s: %v", server, err))
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server)
			if err != nil {
				_ = from.Close()
				continue
			}
			pass := func(a, b net.Conn) {
				_, _ = io.Copy(a, b)
				_, _ = a.Close(), b.Close()
			}
			go pass(from, to)
			go pass(to, from)
		}
	}()
}
