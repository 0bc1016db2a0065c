package ssh

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
)

const (
	// keep is how long an entry remains after the expiry of its certificate, for hosts whose
	// clock is behind.
	keep = 10 * time.Minute
	// fresh is the time for which one reading of the database is used again. The list is public,
	// and requests for it must not load the database.
	fresh = time.Second
	// readTime is the maximum duration of one reading.
	readTime = 5 * time.Second
)

// Ended yields the leases of this provider that ebb refuses and whose expiry is after a given
// time. The driver uses only LeaseID and ExpiresAt of each Target.
type Ended func(ctx context.Context, after time.Time, yield func(provider.Target) error) error

// revoked is the content of the KRL: the ended leases in the database, and those that this
// process has revoked since the last reading. The database alone would be sufficient, but then
// each revocation would need another reading.
type revoked struct {
	ended Ended
	now   func() time.Time
	turn  chan struct{} // a semaphore: its holder reads the database

	mu    sync.Mutex
	told  map[uint64]time.Time // serial -> time from which its entry may be removed
	known map[uint64]time.Time
	read  time.Time   // last attempt to read the database
	err   error       // result of that attempt
	list  []krl.Range // sorted; nil when it must be built again
}

func newRevoked(ended Ended, now func() time.Time) *revoked {
	return &revoked{ended: ended, now: now, turn: make(chan struct{}, 1), told: map[uint64]time.Time{}}
}

// add revokes a serial until its certificate has expired everywhere.
func (r *revoked) add(serial uint64, expires time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[serial], r.list = expires.Add(keep), nil
}

// serials returns all revoked serials, from a reading that is at most fresh old, or with newly
// from a new reading. It fails when the database cannot be read, because an incomplete list
// would make certificates valid again.
func (r *revoked) serials(ctx context.Context, newly bool) ([]krl.Range, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := r.now()
	r.mu.Lock()
	stale := newly || r.read.IsZero() || now.Sub(r.read) >= fresh || now.Before(r.read)
	r.mu.Unlock()
	if stale {
		known, err := r.load(ctx, now)
		r.mu.Lock()
		r.read, r.err, r.list = now, err, nil
		if err == nil {
			r.known = known
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	if r.list == nil {
		r.list = r.collect(now)
	}
	return r.list, nil
}

// collect returns the ranges sorted. Writing the list then costs little, because anyone can
// request it.
func (r *revoked) collect(now time.Time) []krl.Range {
	maps.DeleteFunc(r.told, func(_ uint64, until time.Time) bool { return now.After(until) })
	out := make([]krl.Range, 0, len(r.known)+len(r.told))
	for _, list := range []map[uint64]time.Time{r.known, r.told} {
		for serial, until := range list {
			if !now.After(until) {
				out = append(out, krl.One(serial))
			}
		}
	}
	slices.SortFunc(out, func(a, b krl.Range) int { return cmp.Compare(a.Lo, b.Lo) })
	return out
}

func (r *revoked) load(ctx context.Context, now time.Time) (map[uint64]time.Time, error) {
	if r.ended == nil {
		return nil, errors.New("ssh provider: there is no record to make a revocation list of")
	}
	// One reading serves all waiting requests. A client that disconnects must not make a
	// revocation fail.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime)
	defer cancel()
	out := map[uint64]time.Time{}
	err := r.ended(ctx, now.Add(-keep), func(t provider.Target) error {
		out[SerialOf(t.LeaseID)] = t.ExpiresAt.Add(keep)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ssh provider: reading what is revoked: %w", err)
	}
	return out, nil
}

// file is the KRL file that sshd reads. Without a valid file, sshd refuses every login, so ebb
// only replaces it as a whole. Replicas may share it.
type file struct {
	path string
	turn chan struct{} // a semaphore: its holder writes
	want atomic.Int64  // number of requested writes
	done int64         // number of requested writes that the file contains; guarded by turn
}

// push makes the file contain the current list. Concurrent callers share a write, so that the
// end of a task with a thousand certificates needs only a few writes.
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

// lister returns the current list; with newly it reads the database again even after a recent
// reading.
type lister func(ctx context.Context, newly bool) (krl.List, error)

func (f *file) shows(l krl.List) bool {
	b, err := os.ReadFile(f.path)
	return err == nil && bytes.Equal(b, l.Marshal())
}

// replace writes l to the file. Another replica may have revoked certificates since l was
// built. An entry that is in the file but not in l is therefore removed only if a new reading
// of the database does not contain it.
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

// covers reports whether l revokes everything that old revokes: the union of both is then
// equal to l.
func covers(l, old krl.List) bool {
	both := krl.List{
		Certs: slices.Concat(l.Certs, old.Certs), Keys: slices.Concat(l.Keys, old.Keys), SHA1: slices.Concat(l.SHA1, old.SHA1), SHA256: slices.Concat(l.SHA256, old.SHA256),
	}
	return bytes.Equal(both.Marshal(), l.Marshal())
}

// lock waits for the exclusive lock of the file, which the system releases when the process
// ends.
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

// lockRound is the interval between two attempts to get a lock that another process has.
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

// maxOutput is the number of bytes of a kill command's output that are logged.
const maxOutput = 512

// kill runs the command that ends open sessions. Its arguments are exactly those of the
// configuration. The lease is described in its environment, where no value can become an
// option or a command:
//
//	EBB_PROVIDER  name of the provider     EBB_SERIAL      of the certificate, decimal
//	EBB_LEASE     lease id                 EBB_KEY_ID      as sshd logs it
//	EBB_TASK      task id                  EBB_PRINCIPALS  separated by spaces
//	                                       EBB_GROUPS      separated by spaces
//
// Exit code 0 means that no session of the certificate is open. After another exit code or a
// timeout, ebb retries.
func (d *Driver) kill(ctx context.Context, t provider.Target, keyID string) error {
	p, err := d.set.planOf(t.Scopes)
	if err != nil {
		// The configuration has changed since, but the serial still identifies the
		// certificate.
		p = plan{}
	}
	ctx, cancel := context.WithTimeout(ctx, d.set.killTime)
	defer cancel()
	argv := d.set.Kill.Command
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the operator's own configuration names it
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
		"EBB_PROVIDER=" + d.cfg.Name, "EBB_LEASE=" + t.LeaseID, "EBB_TASK=" + t.TaskID, "EBB_KEY_ID=" + keyID,
		"EBB_SERIAL=" + strconv.FormatUint(SerialOf(t.LeaseID), 10),
		"EBB_PRINCIPALS=" + strings.Join(p.principals, " "), "EBB_GROUPS=" + strings.Join(p.groups, " "),
	}
	var said head
	cmd.Stdout, cmd.Stderr = &said, &said
	// All processes of the command are killed together, because its children would otherwise
	// keep the pipe open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return fmt.Errorf("ssh provider: the kill command failed: %w; it said %q", err, said.b)
	}
	return nil
}

// head keeps the first maxOutput bytes that are written to it.
type head struct{ b []byte }

func (h *head) Write(b []byte) (int, error) {
	h.b = append(h.b, b[:min(len(b), maxOutput-len(h.b))]...)
	return len(b), nil
}
