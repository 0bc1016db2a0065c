package api_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// TestNodeJudge tests a server over TLS with openid-client, oauth4webapi and
// jose (testdata/judge/judge.mjs): with and without nonces, and just after a
// restart. EBB_TEST_NODE_JUDGE is a directory in which its package.json is
// installed.
func TestNodeJudge(t *testing.T) {
	t.Parallel()
	dir := counterpart.Need(t, "EBB_TEST_NODE_JUDGE")
	for name, mode := range map[string]struct{ nonces, restarted bool }{"plain": {}, "nonces": {nonces: true}, "restarted": {restarted: true}, "nonces, restarted": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runJudge(t, dir, mode.nonces, mode.restarted)
		})
	}
}

func runJudge(t *testing.T, dir string, nonces, restarted bool) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	issuer := "https://" + ln.Addr().String()
	r := newRig(t, options{loose: true, broker: brokertest.Config{Issuer: issuer, RealTime: true, Nonces: nonces, Limits: broker.Limits{PollInterval: time.Second}}})
	task, ticket, err := r.env.Broker.OpenTask(t.Context(), r.env.Principals[brokertest.Runner], withTicket())
	if err != nil {
		t.Fatal(err)
	}
	key := brokertest.NewKey(t)
	en, err := r.env.Broker.Enrol(t.Context(), task.ID, evidenceOf(ticket.Ticket.Reveal()), r.env.Prove(t, key))
	if err != nil {
		t.Fatal(err)
	}
	if restarted {
		r = r.restarted(t)
	}
	srv := httptest.NewUnstartedServer(r.mux)
	_ = srv.Listener.Close()
	srv.Listener = ln
	srv.StartTLS()
	defer srv.Close()
	sandbox := en.Task.Sandbox.ID
	keys := map[string]string{sandbox: pkcs8(t, key)}
	for _, who := range []string{brokertest.Approver, brokertest.Operator, brokertest.Server} {
		keys[who] = pkcs8(t, r.env.Keys[who])
	}
	job, err := json.Marshal(map[string]any{
		"issuer": issuer, "sandbox": sandbox, "taskToken": en.Token.Reveal(), "keys": keys, "resource": brokertest.Orders,
		"read": canRead, "write": mustAsk, "ciba": "orders:eu/99:write", "interval": 2500,
		"server": brokertest.Server, "operator": brokertest.Operator, "approver": brokertest.Approver,
	})
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "testdata/judge/judge.mjs")
	cmd.Env = append(os.Environ(), "JUDGE="+string(job), "JUDGE_MODULES="+dir, "NODE_EXTRA_CA_CERTS="+ca)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "done") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func pkcs8(t testing.TB, key jose.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
