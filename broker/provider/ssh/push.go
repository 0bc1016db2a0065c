package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"ebb/broker/provider/ssh/krl"
)

// file is the KRL where sshd reads it. sshd refuses everybody when it is missing
// or damaged, so it is only ever replaced as a whole.
type file struct {
	path string
	turn chan struct{} // held by who writes
	want atomic.Int64  // writes that were asked for
	done int64         // of them, how many the file shows; guarded by turn
}

// push makes the file show what list says now. Callers that wait for each other
// share a write: ending a task of a thousand certificates writes a few files.
func (f *file) push(ctx context.Context, list func(context.Context) (krl.List, error)) error {
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
	l, err := list(ctx)
	if err != nil {
		return err
	}
	if err := f.write(l.Marshal()); err != nil {
		return fmt.Errorf("ssh provider: the revocation list was not written: %w", err)
	}
	f.done = upTo
	return nil
}

// write replaces the file unless it shows b already.
func (f *file) write(b []byte) error {
	if old, err := os.ReadFile(f.path); err == nil && bytes.Equal(old, b) {
		return nil
	}
	dir := filepath.Dir(f.path)
	t, err := os.CreateTemp(dir, ".ebb-krl-*")
	if err != nil {
		return err
	}
	defer os.Remove(t.Name()) //nolint:errcheck // gone after the rename
	_, err = t.Write(b)
	// The list is public, and read by whoever checks a login.
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
