package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

type value struct {
	text  string
	until int64
}

// pace is the polling of one key.
type pace struct {
	last, current int64 // milliseconds
	until         int64
	early         bool // the last call came too early
}

// Put implements broker.Gate. It replaces a value under the same key.
func (s *Store) Put(ctx context.Context, key, text string, until time.Time) error {
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	_, known := s.values[key]
	if !known && s.full() {
		return errFull
	}
	v := value{text: text, until: until.UnixMilli()}
	s.values[key] = v
	if !known {
		s.expiry.add(v.until, item{ofValue, key, ""})
	}
	return nil
}

// Take implements broker.Gate.
func (s *Store) Take(ctx context.Context, key string) (string, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer s.mu.Unlock()
	v, known := s.values[key]
	if !known || v.until <= now {
		return "", fmt.Errorf("one-time value: %w", broker.ErrNotFound)
	}
	delete(s.values, key)
	return v.text, nil
}

// Pace implements broker.Gate. Every call, also one that came too early, is the previous
// call of the next.
func (s *Store) Pace(ctx context.Context, key string, now time.Time, p broker.Pacing, until time.Time) (time.Duration, bool, error) {
	if _, err := s.begin(ctx); err != nil {
		return 0, false, err
	}
	defer s.mu.Unlock()
	ms := now.UnixMilli()
	was, known := s.paces[key]
	if !known && s.full() {
		return 0, false, errFull
	}
	next := pace{last: ms, until: until.UnixMilli(), current: p.Interval.Milliseconds()}
	if known && was.until > ms {
		next.current = max(was.current, next.current)
		if next.early = ms-was.last < next.current; next.early && !was.early {
			next.current = min(next.current+p.Step.Milliseconds(), p.Most.Milliseconds())
		}
	}
	s.paces[key] = next
	if !known {
		s.expiry.add(next.until, item{ofPace, key, ""})
	}
	return time.Duration(next.current) * time.Millisecond, !next.early, nil
}
