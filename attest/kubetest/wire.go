package kubetest

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Object is a decoded object of the API.
type Object = map[string]any

// Answer writes body as a response of an API server.
func Answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// Says returns a handler that always gives the same response.
func Says(code int, body any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { Answer(w, code, body) }
}

// Status returns the Status object of a failure. of are the resource and the name of
// the object that it concerns, if any.
func Status(code int, reason, message string, of ...string) Object {
	details := Object{}
	if len(of) == 2 {
		details = Object{"kind": of[0], "name": of[1]}
	}
	return Object{"kind": "Status", "apiVersion": "v1", "metadata": Object{}, "status": "Failure", "message": message, "reason": reason, "details": details, "code": code}
}

// NotFound returns the Status for an object that does not exist.
func NotFound(resource, name string) Object {
	return Status(http.StatusNotFound, "NotFound", resource+` "`+name+`" not found`, resource, name)
}

// Read decodes a body as with fieldValidation=Strict, and fails the test on a body that
// an API server would refuse. It does not call t.Helper, because fuzz targets call it
// where they may not.
func Read(t testing.TB, r *http.Request, into any) {
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("%s %s: Content-Type %q", r.Method, r.URL.Path, ct)
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	if rest, _ := io.ReadAll(d.Buffered()); len(strings.TrimSpace(string(rest))) > 0 {
		t.Errorf("%s %s: more than one document", r.Method, r.URL.Path)
	}
}

// File writes text, such as a token, to a file that exists until the test ends, and
// returns its path.
func File(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
