package broker

import (
	"context"
	"maps"
	"sync"
	"time"
)

// How old an answer may be: summing up a month in which 100,000 credentials were issued takes
// SQLite a good part of a second the first time.
const (
	shortSpan    = 48 * time.Hour // windows up to here are short
	shortSpanAge = 15 * time.Second
	longSpanAge  = 5 * time.Minute
)

// answerAge is how old an answer may be about a window of this length.
func answerAge(span time.Duration) time.Duration {
	if span > shortSpan {
		return longSpanAge
	}
	return shortSpanAge
}

// answerCache computes one answer at a time: however often people load a page, the
// database does this work for one of them.
type answerCache[T any] struct {
	turn chan struct{} // holds one
	once sync.Once
	kept map[string]keptAnswer[T]
}

type keptAnswer[T any] struct {
	answer T
	at     time.Time
	age    time.Duration // how old it may be
}

func (c *answerCache[T]) get(ctx context.Context, key string, now time.Time, age time.Duration, compute func() (T, error)) (T, error) {
	c.once.Do(func() { c.turn, c.kept = make(chan struct{}, 1), map[string]keptAnswer[T]{} })
	var none T
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return none, unavailable(ctx.Err())
	}
	defer func() { <-c.turn }()
	maps.DeleteFunc(c.kept, func(_ string, k keptAnswer[T]) bool { return now.Sub(k.at) >= k.age || k.at.After(now) })
	if k, ok := c.kept[key]; ok {
		return k.answer, nil
	}
	v, err := compute()
	if err == nil && len(c.kept) < 8 {
		c.kept[key] = keptAnswer[T]{v, now, age}
	}
	return v, err
}
