package counterpart

import (
	"bytes"
	"crypto/fips140"
	"os"
	"os/exec"
	"testing"
)

// FIPSOnly runs the test again in a new process with GODEBUG=fips140=only, and reports
// whether this is that process. The mode can only be set at the start of a process.
func FIPSOnly(t *testing.T) bool {
	t.Helper()
	if fips140.Enforced() {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "GODEBUG=fips140=only")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("with GODEBUG=fips140=only: %v\n%s", err, out)
	}
	return false
}
