//go:build linux

package bwrap_test

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// homeOf is the home directory of another user than the one that runs the test.
func homeOf(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"www-data", "mail", "lp", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		if info, err := os.Stat(u.HomeDir); err == nil && info.IsDir() && u.HomeDir != "/" {
			return u.HomeDir
		}
	}
	return ""
}

// TestWork: (E115) a directory that contains more than a project is refused,
// under each of its names.
//
//ebb:invariant I6 A sandbox cannot mount a user's home directory or a directory that contains one
//ebb:invariant I6 A sandbox cannot mount ebb's own files, such as its configuration, data and keys
//ebb:invariant I6 A symbolic link cannot bypass these mount restrictions, because ebb checks the given path and the file that it opens
func TestWork(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	data, outside := filepath.Join(t.TempDir(), "data"), t.TempDir()
	for _, dir := range []string{filepath.Join(data, "keys"), filepath.Join(outside, "sub", "private")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	links := t.TempDir()
	for name, to := range map[string]string{"home": home, "data": data, "private": filepath.Join(outside, "sub", "private")} {
		if err := os.Symlink(to, filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	// One of them is named by a link, as a configuration may do.
	b.Spec.Private = []string{data, filepath.Join(links, "private")}
	b.Spec.Argv = []string{"true"}
	refused := []string{
		"/", "/home", "/tmp", "/etc", "/usr", "/var", "/run", "/proc", "/sys/kernel", "/dev/shm", home, filepath.Join(links, "home"), filepath.Dir(home),
		data, filepath.Dir(data), filepath.Join(data, "keys"), filepath.Join(links, "data"), outside, filepath.Join(outside, "sub"), filepath.Join(outside, "sub", "private"),
	}
	if other := homeOf(t); other != "" {
		refused = append(refused, other, filepath.Dir(other))
	}
	for _, dir := range refused {
		b.Spec.Work = dir
		if _, err := b.kind.Start(b.Spec); !errors.Is(err, sandbox.ErrPlace) {
			t.Errorf("--work %s: %v", dir, err)
		}
	}
}

// TestRead: (E114) paths with secrets of the machine or of ebb cannot be
// mounted read-only either; other paths can.
//
//ebb:invariant I6 A sandbox cannot mount ebb's own files, such as its configuration, data and keys
//ebb:invariant I6 A symbolic link cannot bypass these mount restrictions, because ebb checks the given path and the file that it opens
func TestRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	data, more := filepath.Join(t.TempDir(), "data"), t.TempDir()
	for path, text := range map[string]string{filepath.Join(data, "operator.key"): "key", filepath.Join(more, "text"): "hello"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/proc", link); err != nil {
		t.Fatal(err)
	}
	b.Spec.Private = []string{data}
	b.Spec.Argv = []string{"true"}
	for _, path := range []string{
		"/", "/proc", "/proc/1/environ", "/sys", "/dev/mem", "/run", "/etc", "/etc/shadow", home, data, filepath.Join(data, "operator.key"), filepath.Dir(data), link, "/no/such/place",
	} {
		b.Spec.Read = []string{path}
		if _, err := b.kind.Start(b.Spec); !errors.Is(err, sandbox.ErrPlace) {
			t.Errorf("--read %s: %v", path, err)
		}
	}
	// As in a machine's /tmp, every user can traverse to the path.
	for dir := more; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.Spec.Read = []string{more, filepath.Join(more, "text")}
	if out := b.Sh("cat " + filepath.Join(more, "text") + "; echo x 2>/dev/null >" + filepath.Join(more, "new") + " || echo no"); out != "hellono\n" {
		t.Errorf("%q", out)
	}
}

// TestKeysOfPeople: (E114) directories of keys below a home are as private as
// the home.
//
//ebb:invariant I6 A sandbox cannot mount a user's home directory or a directory that contains one
//ebb:invariant I6 A sandbox cannot mount the directories in which programs store a user's keys
func TestKeysOfPeople(t *testing.T) {
	b := newBed(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, name := range []string{".ssh", ".aws", ".config/gcloud/legacy", "src/shop"} {
		if err := os.MkdirAll(filepath.Join(home, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.Spec.Argv = []string{"true"}
	for name, refused := range map[string]bool{"": true, ".ssh": true, ".aws": true, ".config": true, ".config/gcloud/legacy": true, "src": false, "src/shop": false} {
		b.Spec.Work = filepath.Join(home, name)
		r, err := b.kind.Start(b.Spec)
		if refused != errors.Is(err, sandbox.ErrPlace) {
			t.Errorf("--work ~/%s: %v", name, err)
		}
		if err == nil {
			if code, err := r.Wait(); code != 0 || err != nil {
				t.Errorf("--work ~/%s: %d, %v", name, code, err)
			}
		}
	}
}
