package contexts_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/contexts"
)

var file = contexts.File{Current: "prod", Contexts: map[string]contexts.Context{
	"prod": {URL: "https://ebb.example.com", CAFile: "/etc/ca.pem", KeyFile: "/home/ann/ann.key", ClientID: "ann"},
}}

func TestReadWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "config", "ebb")
	if got, err := contexts.Read(dir); err != nil || !reflect.DeepEqual(got, contexts.File{}) {
		t.Errorf("without a file: %+v, %v", got, err)
	}
	if err := errors.Join(contexts.Write(dir, contexts.File{}), contexts.Write(dir, file)); err != nil {
		t.Fatal(err)
	}
	if got, err := contexts.Read(dir); err != nil || !reflect.DeepEqual(got, file) {
		t.Errorf("%+v, %v", got, err)
	}
	info, err := os.Stat(filepath.Join(dir, "contexts.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestRefused: a file that another user may have written leads no command to a
// server of that user.
//
//ebb:invariant I6 Commands refuse a file of contexts that other users can access
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(dir, file string) error{
		"others can write the file":      func(_, file string) error { return os.Chmod(file, 0o602) },
		"others can read the file":       func(_, file string) error { return os.Chmod(file, 0o640) },
		"others can write the directory": func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"the directory is a link": func(dir, _ string) error {
			return errors.Join(os.Rename(dir, dir+".real"), os.Symlink(dir+".real", dir))
		},
		"the file is a directory": func(_, file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
		"another member":          func(_, file string) error { return os.WriteFile(file, []byte(`{"contexts": {}, "proxy": "x"}`), 0o600) },
		"no JSON":                 func(_, file string) error { return os.WriteFile(file, []byte(`current: prod`), 0o600) },
		"a name with an escape": func(_, file string) error {
			return os.WriteFile(file, []byte(`{"contexts": {"a\u001b[2J": {}}}`), 0o600)
		},
		"a context named local": func(_, file string) error { return os.WriteFile(file, []byte(`{"contexts": {"local": {}}}`), 0o600) },
	} {
		dir := filepath.Join(t.TempDir(), "ebb")
		if err := contexts.Write(dir, file); err != nil {
			t.Fatal(err)
		}
		if err := spoil(dir, filepath.Join(dir, "contexts.json")); err != nil {
			t.Fatal(err)
		}
		if got, err := contexts.Read(dir); err == nil {
			t.Errorf("%s: %+v", name, got)
		} else if strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %q", name, err)
		}
	}
}

func TestDir(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ xdg, home, want string }{
		{"/x", "/h", "/x/ebb"}, {"x", "/h", "/h/.config/ebb"}, {"", "/h", "/h/.config/ebb"}, {"", "", ""},
	} {
		if got := contexts.Dir(func(name string) string { return map[string]string{"XDG_CONFIG_HOME": tt.xdg, "HOME": tt.home}[name] }); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
