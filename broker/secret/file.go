package secret

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

// WriteFile makes a file of mode 0600 that is complete and durable when it
// appears. It fails with fs.ErrExist when there is one: among several writers
// exactly one wins, and nothing is ever overwritten.
func WriteFile(path string, content []byte) error {
	return write(path, content, os.Link) // link(2): rename(2) would replace a file
}

// ReplaceFile is WriteFile for a file that may exist: readers see the old content or the new.
func ReplaceFile(path string, content []byte) error { return write(path, content, os.Rename) }

// write makes a complete and durable temporary file and gives it its name by place.
func write(path string, content []byte, place func(temporary, path string) error) error {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	f, err := os.CreateTemp(dir, tempPrefix+"*") // mode 0600
	if err != nil {
		return fmt.Errorf("secret: write %s: %w", name, err)
	}
	defer os.Remove(f.Name()) // after a rename there is none
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = place(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("secret: write %s: %w", name, err)
	}
	return SyncDir(dir)
}

// SyncDir makes the names of a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("secret: make %s durable: %w", dir, err)
	}
	return nil
}

// ReadFile reads a file of at most 16 KiB that only its owner can reach; any
// other mode is refused with ErrOpen.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	defer f.Close()
	// The open file is looked at, not its name: nothing can be swapped between.
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("secret: %s is not a regular file", path)
	}
	if err := private(path, info, "600"); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("secret: %s is larger than %d bytes: too large for a secret", path, maxFile)
	}
	return b, nil
}

// ErrOpen is wrapped when others on the machine could read or write a file.
var ErrOpen = errors.New("others can reach it")

func private(path string, info fs.FileInfo, want string) error {
	if runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return fmt.Errorf("secret: %s has mode %04o: %w; if nobody took a copy run chmod %s %s", path, info.Mode().Perm(), ErrOpen, want, path)
}

// EnsureDir makes a directory of mode 0700 when it is absent. One that others can reach is refused with ErrOpen.
func EnsureDir(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	return private(dir, info, "700")
}

// Sweep removes temporary files of a directory that WriteFile and ReplaceFile left behind in a crash: those that are
// older than an hour at now.
func Sweep(dir string, now time.Time) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), tempPrefix) && now.Sub(info.ModTime()) > tempAge {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
