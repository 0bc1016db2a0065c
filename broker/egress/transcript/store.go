package transcript

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// block is what a file takes of a disk at least, in bytes; sizes count in whole ones.
const block = 4 << 10

// TaskShare says which part of all one task may have, with those below it: what one box has written
// down leaves the others room.
const TaskShare = 8

// ErrFull is why nothing more is written down: there is no room, or the task has had its part.
var ErrFull = errors.New("transcript: there is no room")

// Config is what Open needs.
type Config struct {
	Dir   string           // required: ebb's alone; it is made (0700) where the one above it is there
	Bytes int64            // required: that all files may take
	Keep  time.Duration    // required: how old one may become
	Now   func() time.Time // nil = time.Now
}

// Store keeps transcripts. It is safe for concurrent use, and the only one of its directory.
type Store struct {
	cfg Config
	dir *os.Root

	mu   sync.Mutex
	held int64            // bytes of files, and of what is reserved for those that are not over
	of   map[string]int64 // the same by the task of a runner's
	busy map[string]bool  // files that are not over
	last time.Time        // when it was looked for what is too old
}

// Open opens a directory and counts what is in it. One that others can enter is refused: what is
// there could be theirs, and what comes there for them to read.
func Open(c Config) (*Store, error) {
	if c.Dir == "" || c.Bytes <= 0 || c.Keep <= 0 {
		return nil, errors.New("transcript: Dir, Bytes and Keep are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if err := os.Mkdir(c.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(c.Dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("transcript: %s must be a directory, no link, that nobody but ebb's user can enter: mode 0700", c.Dir)
	}
	dir, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: c, dir: dir, of: map[string]int64{}, busy: map[string]bool{}}
	opened, err := dir.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = fmt.Errorf("transcript: %s was changed while it was opened", c.Dir)
	}
	if err == nil {
		err = s.count()
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return s, nil
}

// count takes in what an earlier process has left.
func (s *Store) count() error {
	names, err := s.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		info, err := s.dir.Lstat(name)
		if err != nil {
			return err
		}
		h, _, _ := named(name)
		s.add(h.root, blocks(info.Size()))
	}
	return nil
}

// Close lets go of the directory. Transcripts that are not over stay without their end.
func (s *Store) Close() error { return s.dir.Close() }

func blocks(n int64) int64 { return max((n+block-1)/block, 1) * block }

// add counts n more for a task, or less. s.mu is held, or nobody else has s.
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
		return fmt.Errorf("%w: %d bytes of %d are taken", ErrFull, s.held, s.cfg.Bytes)
	case s.of[root] > 0 && s.of[root]+n > (s.cfg.Bytes-s.held+s.of[root])/TaskShare:
		return fmt.Errorf("%w: %d bytes are taken by this task, of %d that others have left", ErrFull, s.of[root], s.cfg.Bytes-s.held+s.of[root])
	}
	s.add(root, n)
	s.busy[name] = true
	return nil
}

// settle has a file count as what it takes, which is no more than was reserved for it.
func (s *Store) settle(root, name string, reserved, takes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(root, takes-reserved)
	delete(s.busy, name)
}
