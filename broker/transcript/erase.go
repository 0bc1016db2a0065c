package transcript

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"
)

// The time between two searches for old transcripts: in Run, and when there is no room.
const (
	eraseEvery = time.Minute
	eraseSoon  = time.Second
)

// Run erases transcripts that are older than Config.Keep until ctx is done.
func (s *Store) Run(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(eraseEvery)
	defer tick.Stop()
	for {
		if _, err := s.erase(0); err != nil {
			log.ErrorContext(ctx, "transcripts that are too old cannot be erased", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Erase erases transcripts that are older than Config.Keep and returns their number. A transcript
// whose request is under way stays. Erase also counts the space that an operator freed by hand.
func (s *Store) Erase() (int, error) { return s.erase(0) }

// erase does so unless that was done less than so long ago.
func (s *Store) erase(apart time.Duration) (n int, err error) {
	now := s.clock.Read().Sure // a clock that is ahead must not erase evidence
	s.mu.Lock()
	since := now.Sub(s.last)
	if !s.last.IsZero() && since >= 0 && since < apart {
		s.mu.Unlock()
		return 0, nil
	}
	s.last = now
	s.mu.Unlock()
	names, err := s.names()
	if err != nil {
		return 0, err
	}
	for _, name := range names { // the oldest first
		h, at, _ := named(name)
		if now.Sub(at) <= s.cfg.Keep {
			break
		}
		gone, oneErr := s.eraseOne(h.root, name)
		if err = errors.Join(err, oneErr); gone {
			n++
		}
	}
	return n, errors.Join(err, s.recount())
}

// eraseOne erases a finished file. If another caller erased it first, that caller counts it.
func (s *Store) eraseOne(root, name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[name] > 0 {
		return false, nil
	}
	info, err := s.dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = s.dir.Remove(name)
	}
	if err != nil {
		return false, err
	}
	s.add(root, -blocks(info.Size()))
	s.over--
	return true, nil
}
