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
	maxFile    = 64 << 10 // far above any key or token
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

// The permission bits that a file must not have.
const (
	// ownerOnly is for files that ebb or its commands write, with mode 0600. A
	// private key with any other mode was copied or changed by hand.
	ownerOnly = 0o077
	// ownerAndGroup is for files that others make and the configuration names.
	// Kubernetes mounts a secret for a pod that runs without root as 0440 or
	// 0640, owned by root and the pod's fsGroup, so the group must be able to
	// read it.
	ownerAndGroup = 0o007
)

// ReadFile reads a file of at most 64 KiB that ebb or its commands wrote. A file
// that the group or others can reach is refused with ErrOpen.
func ReadFile(path string) ([]byte, error) { return read(path, ownerOnly, "chmod 600 "+path) }

// Read reads the secret in a file of at most 64 KiB that the configuration
// names; options name files and never contain a secret. One newline at the end
// is not part of the secret, and an empty file is an error. A file that users
// outside its group can reach is refused with ErrOpen.
func Read(path string) (Secret, error) {
	b, err := read(path, ownerAndGroup, "chmod o= "+path+" or, in a pod, set fsGroup or runAsUser in its securityContext")
	if err != nil {
		return Secret{}, err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if text == "" {
		return Secret{}, fmt.Errorf("secret: %s is empty: write the secret into it", path)
	}
	return New(text), nil
}

// read reads a regular file of at most maxFile bytes whose mode has no bit of
// refused.
func read(path string, refused fs.FileMode, remedy string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	defer f.Close()
	// The mode of the open file is checked, not that of its name, because the
	// name could be given to another file between the check and the read.
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("secret: %s is not a regular file", path)
	}
	if err := private(path, info, refused, remedy); err != nil {
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

// private refuses a file or directory whose mode has a bit of refused.
func private(path string, info fs.FileInfo, refused fs.FileMode, remedy string) error {
	if runtime.GOOS == "windows" || info.Mode().Perm()&refused == 0 {
		return nil
	}
	return fmt.Errorf("secret: %s has mode %04o: %w; run %s, and replace the secret if it may have been copied", path, info.Mode().Perm(), ErrOpen, remedy)
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
	return private(dir, info, ownerOnly, "chmod 700 "+dir)
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
