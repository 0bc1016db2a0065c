package main

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// own creates the directory of a run until the test ends.
func own(t *testing.T, c *cli) string {
	t.Helper()
	in := &sandboxed{}
	remove, err := ownDir(in, (runCommand{c}).runPlaces())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	return in.dir
}

// shortHome is a home with a path short enough for sockets, wherever this
// machine has its temporary files.
func shortHome(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, `[a*?\`)
}

// TestRunDirsArePrivate: the directory of a run cannot be mounted into the
// sandbox of another run under any name, for all data directories of the two.
//
//ebb:invariant I6 The directory of a run cannot be mounted into a sandbox of another run, whichever run started first
func TestRunDirsArePrivate(t *testing.T) {
	t.Parallel()
	home := shortHome(t)
	file := filepath.Join(t.TempDir(), "ebb.yaml")
	if err := os.WriteFile(file, []byte("data_dir: "+filepath.Join(t.TempDir(), "data")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runs := map[string]*cli{
		"told nothing":     {environ: []string{"HOME=" + home}},
		"told by variable": {environ: []string{"HOME=" + home, "EBB_DATA_DIR=" + filepath.Join(t.TempDir(), "other")}},
		"told by --config": {environ: []string{"HOME=" + home}, configFile: file},
	}
	for first, a := range runs {
		dir := own(t, a)
		for second, b := range runs {
			places, err := (runCommand{b}).private(own(t, b))
			if err != nil {
				t.Fatal(err)
			}
			private := false
			for _, place := range places {
				private = private || strings.HasPrefix(dir, place+"/") && filepath.Dir(dir) != place
			}
			if !private {
				t.Errorf("%s of a run that was %s is not private to one that was %s: %q", dir, first, second, places)
			}
		}
	}
}

// TestRunDir: (E115) a run's directory is created only where no other user can
// change it, or the run is refused.
//
//ebb:invariant I6 The directory of a run is created only where no other user can change it
func TestRunDir(t *testing.T) {
	t.Parallel()
	link, file := dataDir(t, 0o700), filepath.Join(t.TempDir(), "file")
	if err := os.Symlink(dataDir(t, 0o700), filepath.Join(link, runsDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hostile := map[string]string{
		"others may write": dataDir(t, 0o777), "others may look": dataDir(t, 0o755, runsDir), "a link": link, "a file": file,
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("a", 100))
	if made, _, err := makeRunDir(long); err == nil {
		t.Errorf("a long path: %s", made)
	}
	if left, _ := os.ReadDir(filepath.Join(long, runsDir)); len(left) != 0 {
		t.Errorf("a long path: left behind is %v", left)
	}
	refuses(t, hostile)
}

// refuses checks that none of these data directories gets a run's directory,
// and that the next place does.
func refuses(t *testing.T, hostile map[string]string) {
	t.Helper()
	good := dataDir(t, 0o755)
	for what, data := range hostile {
		if made, _, err := makeRunDir(data); err == nil {
			t.Errorf("%s: %s", what, made)
		}
		if left, _ := os.ReadDir(filepath.Join(data, runsDir)); len(left) != 0 {
			t.Errorf("%s: left behind is %v", what, left)
		}
		// The next place is used.
		in := &sandboxed{}
		remove, err := ownDir(in, []string{data, good})
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(in.dir) != filepath.Join(good, runsDir) {
			t.Errorf("%s: %s", what, in.dir)
		}
		remove()
	}
}

// dataDir creates a data directory with nested ones, of which the innermost has
// a mode.
func dataDir(t *testing.T, mode os.FileMode, below ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	for _, name := range append([]string{""}, below...) {
		if err := os.Mkdir(filepath.Join(path, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(append([]string{path}, below...)...), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRunDirOfSomebodyElse: (E115) ... and not in a directory of another user,
// or below one.
//
//ebb:invariant I6 The directory of a run is created only where no other user can change it
func TestRunDirOfSomebodyElse(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		counterpart.Missing(t, "root", "only root can give a directory away")
	}
	hostile := map[string]string{}
	for what, below := range map[string][]string{"somebody else's": nil, "somebody else's runs": {runsDir}} {
		hostile[what] = dataDir(t, 0o700, below...)
		if err := os.Chown(filepath.Join(append([]string{hostile[what]}, below...)...), 4242, 4242); err != nil {
			t.Fatal(err)
		}
	}
	refuses(t, hostile)
	home := t.TempDir()
	if err := os.Chown(home, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if made, _, err := makeRunDir(filepath.Join(home, ".local", "share", "ebb")); err == nil {
		t.Errorf("somebody else's home: %s", made)
	}
	if left, _ := os.ReadDir(home); len(left) != 0 {
		t.Errorf("somebody else's home: left behind is %v", left)
	}
}

// TestRunPlaces: a run first uses the place in its HOME, which every run of its
// user with the same HOME knows, and then the home in /etc/passwd, which every
// run of the user knows.
func TestRunPlaces(t *testing.T) {
	t.Parallel()
	c := &cli{environ: []string{"HOME=/home/me", "EBB_DATA_DIR=/data"}}
	want := []string{"/home/me/.local/share/ebb"}
	if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil {
		want = append(want, filepath.Join(u.HomeDir, ".local/share/ebb"))
	}
	want = append(want, "/data")
	if got := (runCommand{c}).runPlaces(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	long := filepath.Join(shortHome(t), strings.Repeat("a", config.MaxSocketPath))
	if remove, err := ownDir(&sandboxed{}, []string{long}); err == nil {
		remove()
		t.Error("a run has a directory that has no room for its sockets")
	}
}

// TestRunDirHasRoom: the longest accepted directory has room for the socket of
// an egress endpoint, and one that is longer by one byte is refused.
func TestRunDirHasRoom(t *testing.T) {
	t.Parallel()
	home, err := os.MkdirTemp("", "e")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	below := len(filepath.Join("/", "a", runsDir, runPrefix+strings.Repeat("A", runName), strings.Repeat("0", 16), "out")) - 1
	data := filepath.Join(home, strings.Repeat("a", config.MaxSocketPath-len(home)-below))
	dir, held, err := makeRunDir(data)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	listener, err := egress.NewListener(dir, broker.EgressEndpoint{ID: strings.Repeat("0", 16)}, broker.EndpointBySocket, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(listener.Socket()); n != config.MaxSocketPath {
		t.Errorf("%s has %d bytes", listener.Socket(), n)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if made, _, err := makeRunDir(data + "a"); err == nil {
		t.Errorf("%s has no room for a socket", made)
	}
}

// TestBury: the next run removes the files of a killed run, and nothing else.
func TestBury(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	dead, held, err := makeRunDir(data)
	if err != nil {
		t.Fatal(err)
	}
	lives, kept, err := makeRunDir(data)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	other := filepath.Join(data, runsDir, "other")
	for _, path := range []string{other, filepath.Join(dead, "lent")} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := held.Close(); err != nil { // as the kernel does
		t.Fatal(err)
	}
	remove, err := ownDir(&sandboxed{}, []string{data})
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	for path, want := range map[string]bool{dead: false, lives: true, other: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
