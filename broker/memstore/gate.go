package memstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

type claim struct {
	value string
	until int64
}

// rate is a GCRA: tat is the theoretical arrival time of the next event, in
// microseconds.
type rate struct {
	tat   int64
	until int64
}

// Admit implements broker.Gate. Every claim is made and every rate is counted even if one
// of them fails; the first failure in the order claims, rates, task is returned. A claim
// that has already ended is ErrClaimed. A Rate allows Limit events at once, and then one
// each Per/Limit.
func (s *Store) Admit(ctx context.Context, a broker.Admission) (broker.Live, error) {
	if err := a.Check(); err != nil {
		return broker.Live{}, err
	}
	now, err := s.begin(ctx)
	if err != nil {
		return broker.Live{}, err
	}
	defer s.mu.Unlock()
	var failed error
	for _, c := range a.Claims {
		failed = cmp.Or(failed, s.claim(c, now))
	}
	for _, r := range a.Rates {
		failed = cmp.Or(failed, s.count(r, now))
	}
	if failed != nil || a.TaskID == "" {
		return broker.Live{}, failed
	}
	t := s.tasks[a.TaskID]
	if t == nil || !t.known {
		return broker.Live{}, fmt.Errorf("task %s: %w", a.TaskID, broker.ErrNotFound)
	}
	return clone(t.live), nil
}

func (s *Store) claim(c broker.Claim, now int64) error {
	until := c.Until.UnixMilli()
	if until <= now {
		return fmt.Errorf("the claim's time is over: %w", broker.ErrClaimed)
	}
	had, known := s.claims[c.Key]
	if !known && s.forgotten.Has(until/1000) {
		return fmt.Errorf("the clock was set back and the claim may have been forgotten: %w: %w", broker.ErrClaimed, broker.ErrForgotten)
	}
	if known && had.until > now {
		if c.Again && had.value == c.Value {
			return nil
		}
		return broker.ErrClaimed
	}
	if !known {
		if s.full() {
			return errFull
		}
		s.expiry.add(until, item{ofClaim, c.Key, ""})
	}
	s.claims[c.Key] = claim{value: c.Value, until: until}
	return nil
}

func (s *Store) count(r broker.Rate, now int64) error {
	if r.Limit <= 0 {
		return &broker.RateError{Key: r.Key, RetryAfter: r.Per}
	}
	had, known := s.rates[r.Key]
	if !known && s.full() {
		return errFull
	}
	us := now * 1000
	step := (r.Per.Microseconds() + int64(r.Limit) - 1) / int64(r.Limit)
	burst := step * int64(r.Limit)
	tat := max(us, had.tat)
	if tat > us+burst { // the clock was set back: at most one burst is lost
		tat = us + burst
		s.rates[r.Key] = rate{tat: tat, until: tat / 1000}
	}
	if over := tat + step - us - burst; over > 0 {
		return &broker.RateError{Key: r.Key, RetryAfter: ceilMilli(over)}
	}
	until := (tat + step) / 1000
	if !known {
		s.expiry.add(until, item{ofRate, r.Key, ""})
	}
	s.rates[r.Key] = rate{tat: tat + step, until: until}
	return nil
}

func ceilMilli(us int64) time.Duration { return time.Duration((us+999)/1000) * time.Millisecond }

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
