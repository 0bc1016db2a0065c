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

	"github.com/ebb-broker/ebb/cmd/internal/config"
)

const (
	databaseFile = "ebb.db"
	pendingFile  = "pending-ends" // revocations that the database has not recorded yet
	lockFile     = "lock"
)

// openData creates or checks the data directory and locks it for this process.
// It refuses an incomplete directory and changes nothing in it, because an
// operator has to examine it.
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
	// A URL in the directory belongs to an earlier process: the port may be
	// closed, or used by another program.
	if err := os.Remove(filepath.Join(c.DataDir, urlFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail("write to the data directory: "+err.Error(), "check its owner and mode")
	}
	return nil
}

// privateDir creates path with mode 0700, or checks that only its owner can
// enter it.
func privateDir(path string) error {
	err := os.MkdirAll(path, 0o700)
	if err != nil {
		return fail("create the data directory: "+err.Error(), "set data_dir (EBB_DATA_DIR) to a place that this user can write to")
	}
	info, err := os.Stat(path)
	if err != nil {
		return fail("read the data directory: "+err.Error(), "check its owner and mode")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return usage(fmt.Sprintf("the data directory %s has mode %04o: other users can enter it, and it contains keys", path, mode), "chmod 700 "+path)
	}
	return nil
}

// wholeData refuses a database whose keys are missing: with new keys every
// token and every checkpoint of the audit log would silently become
// unverifiable.
func wholeData(c config.Config) error {
	db := filepath.Join(c.DataDir, databaseFile)
	if _, err := os.Stat(db); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(c.Signing.KeysDir); errors.Is(err, fs.ErrNotExist) {
		return usage("the data directory is incomplete: "+db+" exists, but its keys in "+c.Signing.KeysDir+" do not",
			"restore the keys from the backup, or move "+db+" away to start with an empty database")
	}
	return nil
}

// lock makes this process the only user of the directory. The embedded live
// state exists in one process alone, and two processes would not see each
// other's revocations.
func lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fail("lock the data directory: "+err.Error(), "check its owner and mode")
	}
	for range 20 {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond) // runningURL of another process may hold the lock for a moment
	}
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(fail("another ebb uses the data directory "+filepath.Dir(path), "stop it, or give this one its own data_dir (EBB_DATA_DIR)"), f.Close())
	case err != nil:
		return nil, errors.Join(fail("lock the data directory: "+err.Error(), "put it on a local file system"), f.Close())
	}
	return f.Close, nil
}

// runningURL is the public URL of the ebb that uses a data directory. The url
// file is trusted only while the directory is locked, so by a running process
// of this user: after it has ended another program may listen on its port.
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
