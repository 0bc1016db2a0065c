package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
)

// file is the KRL where sshd reads it. sshd refuses everybody when it is missing
// or damaged, so it is only ever replaced as a whole. Replicas may share it.
type file struct {
	path string
	turn chan struct{} // held by who writes
	want atomic.Int64  // writes that were asked for
	done int64         // of them, how many the file shows; guarded by turn
}

// push makes the file show what list says now. Callers that wait for each other
// share a write: ending a task of a thousand certificates writes a few files.
func (f *file) push(ctx context.Context, list lister) error {
	mine := f.want.Add(1)
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if f.done >= mine {
		return nil
	}
	upTo := f.want.Load()
	l, err := list(ctx, false)
	if err != nil {
		return err
	}
	if !f.shows(l) {
		if err := f.replace(ctx, l, list); err != nil {
			return fmt.Errorf("ssh provider: the revocation list was not written: %w", err)
		}
	}
	f.done = upTo
	return nil
}

// lister makes the list of now; newly has it read the record even if it has just
// been read.
type lister func(ctx context.Context, newly bool) (krl.List, error)

func (f *file) shows(l krl.List) bool {
	b, err := os.ReadFile(f.path)
	return err == nil && bytes.Equal(b, l.Marshal())
}

// replace puts l into the file. Another replica may have revoked since l was made:
// what the file holds and l does not leaves it only when a reading of the record
// that is younger than the file says so.
func (f *file) replace(ctx context.Context, l krl.List, list lister) error {
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if b, err := os.ReadFile(f.path); err == nil {
		if old, err := krl.Parse(b); err == nil && !covers(l, old) {
			if l, err = list(ctx, true); err != nil {
				return err
			}
		}
	}
	return f.write(l.Marshal())
}

// covers reports whether l revokes all that old does: with old added it is no other
// list.
func covers(l, old krl.List) bool {
	both := krl.List{
		Certs: slices.Concat(l.Certs, old.Certs), Keys: slices.Concat(l.Keys, old.Keys), SHA1: slices.Concat(l.SHA1, old.SHA1), SHA256: slices.Concat(l.SHA256, old.SHA256),
	}
	return bytes.Equal(both.Marshal(), l.Marshal())
}

// lock is held by the one process that replaces the file. It ends with the process.
func (f *file) lock(ctx context.Context) (unlock func(), err error) {
	l, err := os.OpenFile(f.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(l.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = l.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", l.Name(), err), l.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("another process holds %s: %w", l.Name(), ctx.Err()), l.Close())
		case <-time.After(lockRound):
		}
	}
}

// lockRound is how often a lock that another process holds is tried.
const lockRound = 20 * time.Millisecond

// write replaces the file.
func (f *file) write(b []byte) error {
	dir := filepath.Dir(f.path)
	t, err := os.CreateTemp(dir, ".ebb-krl-*")
	if err != nil {
		return err
	}
	defer os.Remove(t.Name()) //nolint:errcheck // gone after the rename
	_, err = t.Write(b)
	// The list is public. Every process that checks a login reads it.
	err = errors.Join(err, t.Chmod(0o644), t.Sync(), t.Close())
	if err == nil {
		err = os.Rename(t.Name(), f.path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
