package api_test

import (
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

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// TestPythonUnits runs the tests of the Python package, the shared vectors of
// web/verify among them.
func TestPythonUnits(t *testing.T) {
	t.Parallel()
	out, err := python(t, nil, "unittest", "discover", "-t", ".", "-s", "tests")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// TestPythonLive holds the conversations of a runner, a sandbox, an approver and
// a resource server with a server over TLS (tests/live.py): with and without
// nonces, and just after a restart.
func TestPythonLive(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]struct{ nonces, restarted bool }{"plain": {}, "nonces": {nonces: true}, "restarted": {restarted: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runPython(t, mode.nonces, mode.restarted)
		})
	}
}

func runPython(t *testing.T, nonces, restarted bool) {
	counterpart.Need(t, "EBB_TEST_PYTHON")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	issuer := "https://" + ln.Addr().String()
	r := newRig(t, options{loose: true, broker: brokertest.Config{Issuer: issuer, RealTime: true, Nonces: nonces, Limits: broker.Limits{PollInterval: time.Second}}})
	enrolled := map[string]string{}
	if restarted {
		task, ticket, err := r.env.Broker.OpenTask(t.Context(), r.env.Principals[brokertest.Runner], withTicket())
		if err != nil {
			t.Fatal(err)
		}
		key := brokertest.NewKey(t)
		en, err := r.env.Broker.Enrol(t.Context(), task.ID, evidenceOf(ticket.Ticket.Reveal()), r.env.Prove(t, key))
		if err != nil {
			t.Fatal(err)
		}
		enrolled = map[string]string{"task": task.ID, "task_token": en.Token.Reveal(), "key": pkcs8(t, key)}
		r = r.restarted(t)
	}
	srv := httptest.NewUnstartedServer(r.mux)
	_ = srv.Listener.Close()
	srv.Listener = ln
	srv.StartTLS()
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for _, who := range []string{brokertest.Runner, brokertest.Approver, brokertest.Server} {
		keys[who] = pkcs8(t, r.env.Keys[who])
	}
	spec := brokertest.Spec()
	job, err := json.Marshal(map[string]any{
		"issuer": issuer, "ca": ca, "keys": keys, "runner": brokertest.Runner, "approver": brokertest.Approver, "server": brokertest.Server,
		"resource": brokertest.Orders, "ceiling": spec.Ceiling.String(), "owner": spec.Owner, "kind": spec.Kind, "read": canRead, "write": mustAsk, "enrolled": enrolled,
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := python(t, []string{"JOB=" + string(job)}, "tests.live")
	if err != nil || !strings.HasSuffix(strings.TrimSpace(out), "done") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// python runs a module of the package.
func python(t *testing.T, env []string, module ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), counterpart.Need(t, "EBB_TEST_PYTHON"), append([]string{"-B", "-m"}, module...)...)
	cmd.Dir, cmd.Env = "../sdk/python", append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
