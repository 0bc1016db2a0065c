package client_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/verify"
	"github.com/ebb-broker/ebb/web/wire"
)

// TestTypeScript runs the tests of web/sdk/typescript: its own, with the shared
// vectors, test/live.mjs against a live ebb, with and without nonces, and
// test/edge.mjs, which runs the package in an edge runtime.
// EBB_TEST_SDK_TYPESCRIPT is a copy in which the package is installed and built.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	dir := counterpart.Need(t, "EBB_TEST_SDK_TYPESCRIPT")
	vectors, err := filepath.Abs("../verify/testdata/vectors")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("own tests", func(t *testing.T) {
		t.Parallel()
		runNode(t, dir, "EBB_VECTORS="+vectors, "--test", "test/client.test.mjs", "test/verify.test.mjs", "test/vectors.test.mjs")
	})
	t.Run("edge runtime", func(t *testing.T) {
		t.Parallel()
		if out := runNode(t, dir, "JOB="+newFixture(t, false).sdkJob(), "test/edge.mjs"); !strings.HasSuffix(strings.TrimSpace(out), "done") {
			t.Errorf("%s", out)
		}
	})
	for name, nonces := range map[string]bool{"live": false, "live, with nonces": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t, nonces)
			if out := runNode(t, dir, "JOB="+h.sdkJob(), "test/live.mjs"); !strings.HasSuffix(strings.TrimSpace(out), "done") {
				t.Errorf("%s", out)
			}
		})
	}
}

// The package has the version of the newest release.
func TestTypeScriptVersion(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../sdk/typescript/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Version string }
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(log), "\n## [Unreleased]\n")
	_, rest, _ = strings.Cut(rest, "\n## [")
	if released, _, _ := strings.Cut(rest, "]"); p.Version != released {
		t.Errorf("web/sdk/typescript/package.json has version %s, CHANGELOG.md %s", p.Version, released)
	}
}

func runNode(t *testing.T, dir, env string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// sdkJob returns what the test of a client in another language needs: this ebb,
// a resource server in Go, and keys. An approver approves a request for two
// writes, of the first only.
func (h *fixture) sdkJob() string {
	h.t.Helper()
	shop := httptest.NewUnstartedServer(nil)
	base := "http://" + shop.Listener.Addr().String()
	v, err := verify.New(verify.Config{
		Issuer: h.issuer, Resource: brokertest.Orders, PublicURL: base, ClientID: brokertest.Server, Key: h.env.Keys[brokertest.Server],
		RequireScopes: func(r *http.Request) (scopes.Set, error) {
			action := map[bool]string{true: "read", false: "write"}[r.Method == http.MethodGet]
			return scopes.ParseSet("orders:" + strings.Trim(r.URL.Path, "/") + ":" + action)
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.follow(v)
	shop.Config.Handler = v.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "order 42") }))
	shop.Start()
	h.t.Cleanup(shop.Close)
	approver := h.operator(brokertest.Approver)
	var approving sync.WaitGroup
	approving.Go(func() {
		for h.t.Context().Err() == nil {
			h.approveTwoWrites(approver)
			time.Sleep(20 * time.Millisecond)
		}
	})
	h.t.Cleanup(approving.Wait)
	s := brokertest.Spec()
	keys := map[string]string{}
	for _, who := range []string{brokertest.Runner, brokertest.Server} {
		keys[who] = pkcs8(h.t, h.env.Keys[who])
	}
	job, err := json.Marshal(map[string]any{
		"issuer": h.issuer, "resource": brokertest.Orders, "orders": base + "/", "runner": brokertest.Runner, "server": brokertest.Server, "keys": keys,
		"kind": s.Kind, "owner": s.Owner, "ceiling": s.Ceiling.String(),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return string(job)
}

func (h *fixture) approveTwoWrites(approver *client.Operator) {
	list, err := approver.Requests.List(h.t.Context(), client.RequestFilter{State: wire.RequestPending})
	if err != nil {
		return // the test has ended
	}
	for _, r := range list.Items {
		if len(strings.Fields(r.Scopes)) != 2 {
			continue
		}
		full, err := approver.Requests.Get(h.t.Context(), r.ID)
		if err == nil {
			_, err = approver.Requests.Approve(h.t.Context(), r.ID, wire.ApprovalBody{Digest: full.Digest, Scopes: strings.Fields(r.Scopes)[0], TTL: 60})
		}
		if err != nil && h.t.Context().Err() == nil {
			h.t.Errorf("approve: %v", err)
		}
	}
}

func pkcs8(t testing.TB, key jose.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
