package awstest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// Serve runs an HTTP server with the handler cloud until the test ends, and returns its URL.
// At the end it closes connections whose requests are still in progress.
func Serve(t testing.TB, cloud http.Handler) string {
	t.Helper()
	s := httptest.NewServer(cloud)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// SecretFile writes text with a line end to a file with mode 0600, as operators do, and
// returns its path.
func SecretFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
