package keys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	dirMode    = 0o700
	tempPrefix = ".writing-"
	maxFile    = 16 << 10
	// tempAge is when a temporary file must be the leftover of a crash.
	tempAge = time.Hour
)

// WritePrivate makes a file of mode 0600 that is complete and durable when it
// appears. It fails with fs.ErrExist when there is one: among several writers
// exactly one wins, and nothing is ever overwritten. link(2) and not rename(2),
// because rename replaces.
func WritePrivate(path string, content []byte) error {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	f, err := os.CreateTemp(dir, tempPrefix+"*") // mode 0600
	if err != nil {
		return fmt.Errorf("keys: write %s: %w", name, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keys: write %s: %w", name, err)
	}
	if err := os.Link(f.Name(), path); err != nil {
		return fmt.Errorf("keys: write %s: %w", name, err)
	}
	return syncDir(dir)
}

// replacePrivate is WritePrivate for a file that may exist: readers see the old content or the new.
func replacePrivate(path string, content []byte) error {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	f, err := os.CreateTemp(dir, tempPrefix+"*") // mode 0600
	if err != nil {
		return fmt.Errorf("keys: write %s: %w", name, err)
	}
	defer os.Remove(f.Name()) // after the rename there is none
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keys: write %s: %w", name, err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("keys: make %s durable: %w", dir, err)
	}
	return nil
}

// ReadPrivate reads a file of at most 16 KiB that only its owner can reach; any
// other mode is refused with ErrOpen.
func ReadPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	defer f.Close()
	// The open file is looked at, not its name: nothing can be swapped between.
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("keys: %s is not a regular file", path)
	}
	if err := private(path, info, "600"); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("keys: %s is larger than %d bytes: it holds no key", path, maxFile)
	}
	return b, nil
}

// ErrOpen is wrapped when others on the machine could read or write the keys.
var ErrOpen = errors.New("others can reach it")

func private(path string, info fs.FileInfo, want string) error {
	if runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return fmt.Errorf("keys: %s has mode %04o: %w; if nobody took a copy run chmod %s %s", path, info.Mode().Perm(), ErrOpen, want, path)
}

// ensureDir makes the directory when absent, or checks the one that is there.
func ensureDir(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return private(dir, info, "700")
}

// sweep removes what writers that crashed left behind.
func sweep(dir string, now time.Time) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), tempPrefix) && now.Sub(info.ModTime()) > tempAge {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
