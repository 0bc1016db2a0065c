package mcp_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// TestTypeScriptSDK: both generations of the official TypeScript SDK discover
// how to authenticate, and the one that supports key binding calls the server
// (testdata/judge/mcp.mjs of package api).
func TestTypeScriptSDK(t *testing.T) {
	t.Parallel()
	dir := counterpart.Need(t, "EBB_TEST_NODE_JUDGE")
	h := newFixture(t)
	_, w := h.serve(false)
	der, err := x509.MarshalPKCS8PrivateKey(w.key)
	if err != nil {
		t.Fatal(err)
	}
	job, err := json.Marshal(map[string]any{
		"issuer": h.issuer, "server": h.resource(), "scope": mayCall, "sandbox": w.id,
		"key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "../../../../web/api/testdata/judge/mcp.mjs")
	cmd.Env = append(os.Environ(), "JUDGE="+string(job), "JUDGE_MODULES="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "done") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
