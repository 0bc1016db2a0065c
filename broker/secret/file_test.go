package secret_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/secret"
)

// TestReadModes checks which permission bits each function refuses: ReadFile
// those of the group and others, Read those of others.
func TestReadModes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode                fs.FileMode
		readFile, readValue bool
	}{{0o600, true, true}, {0o400, true, true}, {0o640, false, true}, {0o440, false, true}, {0o644, false, false}, {0o602, false, false}, {0o601, false, false}} {
		path := written(t, "canary\n", tc.mode)
		_, err := secret.ReadFile(path)
		if (err == nil) != tc.readFile || err != nil && !errors.Is(err, secret.ErrOpen) {
			t.Errorf("ReadFile of mode %04o: %v", tc.mode, err)
		}
		s, err := secret.Read(path)
		if (err == nil) != tc.readValue || err != nil && !errors.Is(err, secret.ErrOpen) || err == nil && s.Reveal() != "canary" {
			t.Errorf("Read of mode %04o: %v", tc.mode, err)
		}
	}
}

// TestReadValues checks the trimming of one newline, and that no error contains
// the content of the file.
func TestReadValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"canary": "canary", "canary\r\n": "canary", "canary\n\n": "canary\n", " canary ": " canary "} {
		if s, err := secret.Read(written(t, text, 0o600)); err != nil || s.Reveal() != want {
			t.Errorf("Read of %q: %q, %v", text, s.Reveal(), err)
		}
	}
	dir := t.TempDir()
	for _, bad := range []string{written(t, "canary", 0o644), written(t, "\n", 0o600), written(t, strings.Repeat("canary", 20000), 0o600), filepath.Join(dir, "none"), dir} {
		if _, err := secret.Read(bad); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("Read(%s) = %v", bad, err)
		}
	}
}

// written returns a file with a text and exactly this mode, regardless of the umask.
func written(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}
