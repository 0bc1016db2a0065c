package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ebb/cmd/ebb/internal/config"
)

const (
	databaseFile = "ebb.db"
	pendingFile  = "pending-ends" // ends that no store has taken
	lockFile     = "lock"
)

// openData makes or checks the data directory and takes it for this process.
// What is half there is left alone: a person has to look at it.
func (n *node) openData(c config.Config) error {
	if err := privateDir(c.DataDir); err != nil {
		return err
	}
	if c.Database == "" {
		if err := wholeData(c); err != nil {
			return err
		}
	}
	unlock, err := lock(filepath.Join(c.DataDir, lockFile))
	if err != nil {
		return err
	}
	n.closers = append(n.closers, unlock)
	// Where the last one was listens nobody, or somebody else.
	if err := os.Remove(filepath.Join(c.DataDir, urlFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail("the data directory cannot be written to: "+err.Error(), "check its owner and mode")
	}
	return nil
}

// privateDir makes path with mode 0700, or checks that only its owner can enter.
func privateDir(path string) error {
	err := os.MkdirAll(path, 0o700)
	if err != nil {
		return fail("the data directory cannot be made: "+err.Error(), "set data_dir (EBB_DATA_DIR) to a place that this user can write to")
	}
	info, err := os.Stat(path)
	if err != nil {
		return fail("the data directory cannot be read: "+err.Error(), "check its owner and mode")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return &failure{exitUsage, fmt.Sprintf("others can enter the data directory %s (mode %04o), and it holds keys", path, mode), "chmod 700 " + path}
	}
	return nil
}

// wholeData refuses a database whose keys are gone: new keys would make every
// token and every checkpoint on the record unverifiable, without a word.
func wholeData(c config.Config) error {
	db := filepath.Join(c.DataDir, databaseFile)
	if _, err := os.Stat(db); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(c.Signing.KeysDir); errors.Is(err, fs.ErrNotExist) {
		return &failure{exitUsage, "the data directory is half there: " + db + " exists and its keys in " + c.Signing.KeysDir + " do not",
			"restore the keys from the backup, or move " + db + " away to start anew"}
	}
	return nil
}

// lock makes this process the only one that uses the directory: the embedded
// ledger is in this process alone, and two would not know of each other's ends.
func lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fail("the data directory cannot be locked: "+err.Error(), "check its owner and mode")
	}
	for range 20 {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond) // it may be somebody who asks whether it is locked
	}
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(&failure{exitFailure, "another ebb uses the data directory " + filepath.Dir(path), "stop it, or give this one its own data_dir (EBB_DATA_DIR)"}, f.Close())
	case err != nil:
		return nil, errors.Join(fail("the data directory cannot be locked: "+err.Error(), "put it on a local file system"), f.Close())
	}
	return f.Close, nil
}

// runningURL is the public URL of the ebb that uses a data directory. What is written there
// counts while somebody holds the lock, which is this user: on the port of one that has ended
// may listen anybody.
func runningURL(dir string) (url string, running bool) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return "", false
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return "", false
	}
	text, err := os.ReadFile(filepath.Join(dir, urlFile))
	return strings.TrimSpace(string(text)), err == nil
}
