package awstest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// Serve runs an AWS until the test ends, and gives its URL. Calls that hang there
// are cut then.
func Serve(t testing.TB, cloud http.Handler) string {
	t.Helper()
	s := httptest.NewServer(cloud)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// SecretFile holds a secret as operators write them: on a line, for the owner alone.
func SecretFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
