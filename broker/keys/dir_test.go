package keys_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/keys"
	custody "github.com/ebb-broker/ebb/broker/secret"
)

const (
	lead  = time.Hour
	grace = 2 * time.Hour
	every = 24 * time.Hour
	slack = 5 * time.Minute
)

func config(dir string, now time.Time) keys.Config {
	return keys.Config{
		Dir: dir, Now: func() time.Time { return now },
		Policy: keys.Policy{Alg: jose.EdDSA, RotateEvery: every, Lead: lead, Grace: grace},
	}
}

func open(t testing.TB, dir string, now time.Time) *keys.Dir {
	t.Helper()
	d, err := keys.Open(config(dir, now))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func files(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", e.Name(), info.Mode().Perm())
		}
		out = append(out, e.Name())
	}
	return out
}

func TestDirLife(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data", "keys")
	d := open(t, dir, start)
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Errorf("directory mode %o", info.Mode().Perm())
	}
	_, first, alg, _ := d.Ring().Signer(start)
	if alg != jose.EdDSA {
		t.Errorf("alg %s", alg)
	}
	if err := d.Maintain(start.Add(every - lead - time.Second)); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, dir), []string{"secret.key", "sign-000001.key"}; !slices.Equal(got, want) {
		t.Fatalf("files %v, want %v", got, want)
	}
	// Due: the next key is published for a whole lead before it signs.
	at := start.Add(every - lead)
	for range 3 {
		if err := d.Maintain(at); err != nil {
			t.Fatal(err)
		}
	}
	if got := kids(t, d.Ring(), at); len(got) != 2 || got[0] != first {
		t.Fatalf("published %v", got)
	}
	second := kids(t, d.Ring(), at)[1]
	if _, kid, _, _ := d.Ring().Signer(at.Add(lead - time.Second)); kid != first {
		t.Error("the next key signs before its lead is over")
	}
	if _, kid, _, _ := d.Ring().Signer(at.Add(lead)); kid != second {
		t.Error("the next key does not sign after its lead")
	}
	// A restart changes nothing.
	if got := kids(t, open(t, dir, at).Ring(), at); !slices.Equal(got, []string{first, second}) {
		t.Errorf("after restart %v", got)
	}
	// After grace the private key is gone and the public one is archived.
	if err := d.Maintain(start.Add(every + grace + slack)); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, dir), []string{"secret.key", "sign-000001.pub", "sign-000002.key"}; !slices.Equal(got, want) {
		t.Fatalf("files %v, want %v", got, want)
	}
	old, err := d.Archive()
	if err != nil || len(old) != 1 || old[0].KID != first {
		t.Errorf("archive %v, %v", old, err)
	}
}

func TestSecretSurvives(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	want := open(t, dir, start).Ring().Derive("x")
	if got := open(t, dir, start).Ring().Derive("x"); !slices.Equal(got, want) {
		t.Error("the secret changed at a restart")
	}
	if other := open(t, filepath.Join(t.TempDir(), "keys"), start).Ring().Derive("x"); slices.Equal(other, want) {
		t.Error("two directories share a secret")
	}
}

func TestAlgChangeRotates(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	open(t, dir, start)
	cfg := config(dir, start)
	cfg.Policy.Alg = jose.ES256
	d, err := keys.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Maintain(start); err != nil {
		t.Fatal(err)
	}
	if _, _, alg, _ := d.Ring().Signer(start.Add(lead)); alg != jose.ES256 {
		t.Errorf("alg %s after the lead", alg)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	const key, secret = "sign-000001.key", "secret.key"
	cut := func(path string, n int64) func() error { return func() error { return os.Truncate(path, n) } }
	for name, tc := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"directory open to the group": {func(d string) error { return os.Chmod(d, 0o750) }, "chmod 700"},
		"key readable by the group":   {func(d string) error { return os.Chmod(filepath.Join(d, key), 0o640) }, "chmod 600"},
		"key readable by the world":   {func(d string) error { return os.Chmod(filepath.Join(d, key), 0o604) }, "chmod 600"},
		"key too large":               {func(d string) error { return cut(filepath.Join(d, key), 80<<10)() }, "larger than"},
		"secret readable":             {func(d string) error { return os.Chmod(filepath.Join(d, secret), 0o644) }, "chmod 600"},
		"key empty":                   {func(d string) error { return cut(filepath.Join(d, key), 0)() }, "it is empty"},
		"key half written":            {func(d string) error { return cut(filepath.Join(d, key), 200)() }, "restore it from a backup"},
		"secret half written":         {func(d string) error { return cut(filepath.Join(d, secret), 30)() }, "cut off"},
		"secret empty":                {func(d string) error { return cut(filepath.Join(d, secret), 0)() }, "empty"},
		"secret lost":                 {func(d string) error { return os.Remove(filepath.Join(d, secret)) }, "missing although"},
		"key is a directory": {func(d string) error {
			p := filepath.Join(d, "sign-000002.key")
			return os.Mkdir(p, 0o700)
		}, "not a regular file"},
	} {
		dir := filepath.Join(t.TempDir(), "keys")
		open(t, dir, start)
		if err := tc.spoil(dir); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, dir)
		_, err := keys.Open(config(dir, start))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
		if after := snapshot(t, dir); after != before {
			t.Errorf("%s: the directory was changed:\n%s\n%s", name, before, after)
		}
	}
}

// snapshot is the names and contents of a directory.
func snapshot(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		text, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		b.WriteString(e.Name() + " " + string(text) + "\n")
	}
	return b.String()
}

func TestClockBackwards(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	d := open(t, dir, start)
	_, kid, _, _ := d.Ring().Signer(start)
	for _, back := range []time.Duration{time.Minute, slack, time.Hour, 1000 * time.Hour} {
		now := start.Add(-back)
		before := snapshot(t, dir)
		err := d.Maintain(now)
		if wrong := back > slack; errors.Is(err, keys.ErrClock) != wrong {
			t.Errorf("%v back: %v", back, err)
		}
		if snapshot(t, dir) != before {
			t.Errorf("%v back: files changed", back)
		}
		_, got, _, err := d.Ring().Signer(now)
		if wrong := back > slack; errors.Is(err, keys.ErrClock) != wrong || !wrong && got != kid {
			t.Errorf("%v back: signer %s, %v", back, got, err)
		}
	}
}

// TestKeyOfTheFuture: a key that was made while the clock was ahead does not prevent signing with
// the older key, neither now nor after a restart. It signs once its creation time has passed.
//
//ebb:invariant I4 A signing key with a creation time in the future does not stop another key from signing
func TestKeyOfTheFuture(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	d := open(t, dir, start)
	_, kid, _, _ := d.Ring().Signer(start)
	ahead := start.Add(48 * time.Hour)
	next, err := d.Rotate(ahead)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*keys.Dir{"running": d, "restarted": open(t, dir, start.Add(time.Minute))} {
		now := start.Add(time.Minute)
		if err := d.Maintain(now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, got, _, err := d.Ring().Signer(now); err != nil || got != kid {
			t.Errorf("%s: signs with %s, %v", name, got, err)
		}
		if strings.Contains(string(d.Ring().JWKS(now)), next) {
			t.Errorf("%s: the key of the future is published", name)
		}
		if err := d.Maintain(ahead); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, got, _, err := d.Ring().Signer(ahead.Add(2 * lead)); err != nil || got != next {
			t.Errorf("%s: signs with %s in the time of %s, %v", name, got, next, err)
		}
	}
}

// Every state that kill -9 can leave behind in the middle of a rotation.
func TestCrashStates(t *testing.T) {
	t.Parallel()
	due := start.Add(every - lead)
	spare := filepath.Join(t.TempDir(), "keys")
	d := open(t, spare, start)
	if _, err := d.Rotate(due); err != nil {
		t.Fatal(err)
	}
	next, err := os.ReadFile(filepath.Join(spare, "sign-000002.key"))
	if err != nil {
		t.Fatal(err)
	}
	for name, leave := range map[string]func(dir string) error{
		"temporary file empty":    func(dir string) error { return os.WriteFile(filepath.Join(dir, ".writing-1"), nil, 0o600) },
		"temporary file half":     func(dir string) error { return os.WriteFile(filepath.Join(dir, ".writing-1"), next[:99], 0o600) },
		"temporary file complete": func(dir string) error { return os.WriteFile(filepath.Join(dir, ".writing-1"), next, 0o600) },
		"linked, name not removed": func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, ".writing-1"), next, 0o600),
				os.Link(filepath.Join(dir, ".writing-1"), filepath.Join(dir, "sign-000002.key")))
		},
	} {
		dir := filepath.Join(t.TempDir(), "keys")
		open(t, dir, start)
		if err := leave(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, ".writing-1"), due, due); err != nil {
			t.Fatal(err)
		}
		d := open(t, dir, due)
		if err := d.Maintain(due); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := kids(t, d.Ring(), due); len(got) != 2 {
			t.Errorf("%s: published %v, want two keys", name, got)
		}
		if !slices.Contains(files(t, dir), ".writing-1") {
			t.Errorf("%s: the file of a writer that may be alive was removed", name)
		}
		open(t, dir, due.Add(2*time.Hour))
		if got, want := files(t, dir), []string{"secret.key", "sign-000001.key", "sign-000002.key"}; !slices.Equal(got, want) {
			t.Errorf("%s: files %v, want %v", name, got, want)
		}
	}
}

// The crash between the archived public key and the removal of the private one.
func TestCrashInArchive(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	d := open(t, dir, start)
	if _, err := d.Rotate(start); err != nil {
		t.Fatal(err)
	}
	if err := custody.WriteFile(filepath.Join(dir, "sign-000001.pub"), []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	late := start.Add(lead + grace + slack)
	if err := open(t, dir, late).Maintain(late); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, dir), []string{"secret.key", "sign-000001.pub", "sign-000002.key"}; !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

// Real kills: a child rotates without pause and is killed at arbitrary moments.
func TestKilledWhileRotating(t *testing.T) {
	if dir := os.Getenv("EBB_KEYS_CHILD"); dir != "" {
		child(dir)
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	for i := range 6 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileRotating$")
		cmd.Env = append(os.Environ(), "EBB_KEYS_CHILD="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The child prints a byte per key made: kill it after a few.
		_, _ = out.Read(make([]byte, 1+i))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		far := start.Add(24 * 365 * time.Hour * 100)
		d, err := keys.Open(config(dir, far))
		if err != nil {
			t.Fatalf("after kill %d: %v", i, err)
		}
		_ = kids(t, d.Ring(), far)
	}
}

func child(dir string) {
	d, err := keys.Open(config(dir, start.Add(24*365*time.Hour*50)))
	if err != nil {
		os.Exit(3)
	}
	now := start.Add(24 * 365 * time.Hour * 50)
	for {
		now = now.Add(2 * lead)
		if _, err := d.Rotate(now); err != nil {
			os.Exit(4)
		}
		_, _ = os.Stdout.Write([]byte("."))
	}
}

// I10: eight replicas start on one directory and rotate it at once.
func TestConcurrentReplicas(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	due := start.Add(every - lead)
	const n = 8
	rings, got := make([]*keys.Dir, n), make([]string, n)
	together := func(do func(i int) error) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				if err := do(i); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
	together(func(i int) (err error) {
		rings[i], err = keys.Open(config(dir, start))
		return err
	})
	together(func(i int) (err error) {
		got[i], err = rings[i].Rotate(due)
		return errors.Join(err, rings[i].Maintain(due))
	})
	if want := []string{"secret.key", "sign-000001.key", "sign-000002.key"}; !slices.Equal(files(t, dir), want) {
		t.Errorf("files %v, want %v", files(t, dir), want)
	}
	for i, d := range rings {
		if got[i] != got[0] || !slices.Equal(d.Ring().Derive("x"), rings[0].Ring().Derive("x")) {
			t.Errorf("replica %d: next %s, want %s and one secret", i, got[i], got[0])
		}
	}
}

// One Dir used by many goroutines while others sign and verify.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	d := open(t, filepath.Join(t.TempDir(), "keys"), start)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 10 {
				now := start.Add(time.Duration(i) * time.Second)
				if _, err := d.Rotate(now); err != nil {
					t.Error(err)
				}
				_, kid, alg, _ := d.Ring().Signer(now)
				if _, err := d.Ring().KeySource(now)(jose.Header{Alg: alg, KID: kid}); err != nil {
					t.Error(err)
				}
				_ = d.Ring().JWKS(now)
			}
		})
	}
	wg.Wait()
}
