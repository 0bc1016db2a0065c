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

// Object is one of the API, decoded.
type Object = map[string]any

// Answer writes body as an API server does.
func Answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// Says is a handler that answers the same each time.
func Says(code int, body any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { Answer(w, code, body) }
}

// Status is the object that tells of a failure. of are the resource and the name of
// what it is about; none when it is about neither.
func Status(code int, reason, message string, of ...string) Object {
	details := Object{}
	if len(of) == 2 {
		details = Object{"kind": of[0], "name": of[1]}
	}
	return Object{"kind": "Status", "apiVersion": "v1", "metadata": Object{}, "status": "Failure", "message": message, "reason": reason, "details": details, "code": code}
}

// NotFound is the answer about an object that is not there.
func NotFound(resource, name string) Object {
	return Status(http.StatusNotFound, "NotFound", resource+` "`+name+`" not found`, resource, name)
}

// Read decodes a body as with fieldValidation=Strict: the test fails on what an API
// server would not take. It is called from where a fuzz target may not call Helper.
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

// File holds text, such as a login, for as long as the test runs.
func File(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
