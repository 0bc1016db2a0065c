package keys_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/keys"
)

func TestMarkFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	d, err := keys.Open(keys.Config{Dir: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, mark := range []string{"one", "two"} { // the second replaces the first
		if err := d.PutMark(t.Context(), "ebb-a", []byte(mark)); err != nil {
			t.Fatal(err)
		}
	}
	for _, writer := range []string{"", "../ebb", "a/b", ".", "a\x00", string(make([]byte, 200))} {
		if err := d.PutMark(t.Context(), writer, []byte("x")); err == nil {
			t.Errorf("a mark of %q was written", writer)
		}
	}
	info, err := os.Stat(filepath.Join(path, "mark-ebb-a.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	got, err := d.Marks(t.Context())
	if err != nil || len(got) != 1 || string(got["ebb-a"]) != "two" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := d.DropMark(t.Context(), "ebb-a"); err != nil {
		t.Error(err)
	}
	if err := d.DropMark(t.Context(), "ebb-a"); err != nil {
		t.Error("there may be none:", err)
	}
	if got, err = d.Marks(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("after a drop: %q, %v", got, err)
	}
	// Keys are found beside marks.
	if again, err := keys.Open(keys.Config{Dir: path}); err != nil || len(again.Ring().JWKS(time.Now())) == 0 {
		t.Error(err)
	}
	_ = os.WriteFile(filepath.Join(path, "mark-ebb-b.json"), []byte("x"), 0o644)
	_ = os.Chmod(filepath.Join(path, "mark-ebb-b.json"), 0o644)
	if _, err := d.Marks(t.Context()); err == nil {
		t.Error("a mark that others can write was read")
	}
}
