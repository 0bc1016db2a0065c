package file_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/seal/file"
	"github.com/ebb-broker/ebb/broker/seal/sealtest"
)

const id = sealtest.ID

var key = sealtest.DataKey()

func TestEveryByteOfAFileKeyCounts(t *testing.T) {
	w, err := file.New(file.Config{Path: filepath.Join(t.TempDir(), "seal.key")})
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := w.Wrap(t.Context(), id, key)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(wrapped) {
		for _, bad := range []string{wrapped[:i], wrapped[:i] + "A" + wrapped[i+1:]} {
			if bad == wrapped {
				continue
			}
			if _, err := w.Unwrap(t.Context(), id, bad); err == nil {
				t.Errorf("%q opens", bad)
			}
		}
	}
}

func TestSuite(t *testing.T) {
	dir := t.TempDir()
	open := func(c file.Config) seal.Wrapper {
		w, err := file.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	first, second := filepath.Join(dir, "1.key"), filepath.Join(dir, "2.key")
	sealtest.Run(t, sealtest.Suite{
		Wrapper: open(file.Config{Path: first}), Other: open(file.Config{Path: second}),
		Rotate: func(*testing.T) seal.Wrapper { return open(file.Config{Path: second, Previous: []string{first}}) },
	})
}

// The file is lost or replaced while ebb runs: Check reports it before the next start.
func TestFileIsLookedAfter(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "seal.key"), filepath.Join(dir, "other.key")
	w, err := file.New(file.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.New(file.Config{Path: other}); err != nil {
		t.Fatal(err)
	}
	if err := w.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func() error{
		func() error { return os.Remove(path) },
		func() error { return os.Rename(other, path) },
		func() error { return os.Truncate(path, 10) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if err := w.Check(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("Check: %v", err)
		}
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.key")
	if _, err := file.New(file.Config{Path: good}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	bad := map[string]file.Config{
		"none":         {},
		"empty":        {Path: write("empty", "", 0o600)},
		"cut":          {Path: write("cut", string(text[:len(text)/2]), 0o600)},
		"twice":        {Path: write("twice", string(text)+string(text), 0o600)},
		"open":         {Path: write("open", string(text), 0o644)},
		"garbage":      {Path: write("garbage", "hunter2", 0o600)},
		"lost":         {Path: filepath.Join(dir, "lost"), Previous: []string{good}},
		"old is lost":  {Path: good, Previous: []string{filepath.Join(dir, "gone")}},
		"no directory": {Path: filepath.Join(dir, "no", "seal.key")},
	}
	for name, c := range bad {
		if _, err := file.New(c); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: New = %v", name, err)
		}
	}
	if now, err := os.ReadFile(filepath.Join(dir, "cut")); err != nil || len(now) != len(text)/2 {
		t.Error("a damaged file was overwritten")
	}
}

func FuzzUnwrap(f *testing.F) {
	w, err := file.New(file.Config{Path: filepath.Join(f.TempDir(), "seal.key")})
	if err != nil {
		f.Fatal(err)
	}
	wrapped, err := w.Wrap(context.Background(), id, key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wrapped)
	f.Add("file::")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := w.Unwrap(t.Context(), id, text); err == nil && (text != wrapped || string(got) != string(key)) {
			t.Errorf("%q opens", text)
		}
	})
}
