package transcript

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest/clock"
	"github.com/ebb-broker/ebb/broker/owndir"
)

// block is what a file takes of a disk at least, in bytes; sizes count in whole ones.
const block = 4 << 10

// TaskShare bounds a root task, with its descendants, to one TaskShare-th of the space that other
// tasks leave. One sandbox cannot use up the space of the others.
const TaskShare = 8

// ErrFull is why nothing more is written down: there is no room, or the task has had its part.
var ErrFull = errors.New("transcript: no space left")

// Config is what Open needs.
type Config struct {
	Dir   string           // required: ebb's alone; it is made (0700) where the one above it is there
	Bytes int64            // required: that all files may take
	Keep  time.Duration    // required: how old one may become
	Now   func() time.Time // nil = time.Now
	// Steady replaces the machine's monotonic clock in tests; nil means that clock.
	Steady func() time.Duration
}

// Store keeps transcripts. It is safe for concurrent use, and the only one of its directory.
type Store struct {
	cfg   Config
	clock *clock.Clock
	dir   *os.Root

	mu   sync.Mutex
	held int64            // bytes of files, and of what is reserved for those that are not over
	of   map[string]int64 // the same by the task of a runner's
	busy map[string]int64 // what is reserved for files that are not over
	over int              // files that are
	last time.Time        // when it was looked for what is too old
}

// Open opens the directory and counts its files. It refuses a directory that other users can
// enter: they could plant files, or read the transcripts.
func Open(c Config) (*Store, error) {
	if c.Dir == "" || c.Bytes <= 0 || c.Keep <= 0 {
		return nil, errors.New("transcript: Dir, Bytes and Keep are required")
	}
	if err := os.Mkdir(c.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	dir, err := owndir.Open(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("transcript: %s: %w", c.Dir, err)
	}
	s := &Store{cfg: c, clock: clock.New(c.Now, c.Steady), dir: dir, of: map[string]int64{}, busy: map[string]int64{}}
	if err := s.recount(); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return s, nil
}

// recount counts the files again if their number has changed: after a start, because of an earlier
// process, and after an operator removed files by hand to free space.
func (s *Store) recount() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, err := s.names()
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return s.busy[name] > 0 })
	if len(names) == s.over {
		return nil
	}
	of, over := map[string]int64{}, 0
	for _, name := range names {
		info, err := s.dir.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		h, _, _ := named(name)
		of[h.root] += blocks(info.Size())
		over++
	}
	for name, reserved := range s.busy {
		h, _, _ := named(name)
		of[h.root] += reserved
	}
	s.of, s.over, s.held = of, over, 0
	for _, n := range of {
		s.held += n
	}
	return nil
}

// Close lets go of the directory. Transcripts that are not over stay without their end.
func (s *Store) Close() error { return s.dir.Close() }

func blocks(n int64) int64 { return max((n+block-1)/block, 1) * block }

// add counts n more for a task, or less. s.mu is held.
func (s *Store) add(root string, n int64) {
	s.held += n
	if s.of[root] += n; s.of[root] <= 0 {
		delete(s.of, root)
	}
}

// reserve takes room for a file, when there is some.
func (s *Store) reserve(root, name string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.held+n > s.cfg.Bytes:
		return fmt.Errorf("%w: %d of %d bytes are in use; raise the limit, or wait until old transcripts are erased", ErrFull, s.held, s.cfg.Bytes)
	case s.of[root] > 0 && s.of[root]+n > (s.cfg.Bytes-s.held+s.of[root])/TaskShare:
		return fmt.Errorf("%w: this task uses %d of the %d bytes that other tasks leave, and its share is used up", ErrFull, s.of[root], s.cfg.Bytes-s.held+s.of[root])
	}
	s.add(root, n)
	s.busy[name] = n
	return nil
}

// settle replaces a reservation by the file's actual size, which is not larger. 0 means that the
// file is removed.
func (s *Store) settle(root, name string, takes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(root, takes-s.busy[name])
	delete(s.busy, name)
	if takes > 0 {
		s.over++
	}
}
