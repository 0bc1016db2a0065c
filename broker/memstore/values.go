package memstore

import (
	"context"
	"fmt"
	"time"

	"ebb/broker"
)

type value struct {
	text  string
	until int64
}

// pace is the polling of one key.
type pace struct {
	last, current int64 // milliseconds
	until         int64
}

// Put implements broker.Gate. A value under the same key is replaced.
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

// Pace implements broker.Gate. Every call is a previous one to the next, also
// one that came too early.
func (s *Store) Pace(ctx context.Context, key string, now time.Time, interval, step time.Duration, until time.Time) (time.Duration, bool, error) {
	if _, err := s.begin(ctx); err != nil {
		return 0, false, err
	}
	defer s.mu.Unlock()
	ms := now.UnixMilli()
	p, known := s.paces[key]
	if !known && s.full() {
		return 0, false, errFull
	}
	ok := true
	if !known || p.until <= ms {
		p = pace{current: interval.Milliseconds()}
	} else {
		p.current = max(p.current, interval.Milliseconds())
		if ok = ms-p.last >= p.current; !ok {
			p.current += step.Milliseconds()
		}
	}
	p.last, p.until = ms, until.UnixMilli()
	s.paces[key] = p
	if !known {
		s.expiry.add(p.until, item{ofPace, key, ""})
	}
	return time.Duration(p.current) * time.Millisecond, ok, nil
}
