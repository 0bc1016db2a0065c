package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

func (t *liveStoreTest) rate(limit int, per time.Duration) error {
	_, err := t.l.Admit(t.ctx, broker.Admission{Rates: []broker.Rate{{Key: "mint", Limit: limit, Per: per}}})
	return err
}

func gateRates(t *liveStoreTest) {
	for _, c := range []struct {
		limit int
		per   time.Duration
	}{{1, time.Second}, {3, time.Minute}, {7, time.Minute}, {60, time.Minute}, {1500, time.Second}} {
		for round := range 2 {
			for i := range c.limit {
				t.want(fmt.Sprintf("event %d of %d, round %d", i, c.limit, round), t.rate(c.limit, c.per), nil)
			}
			err := t.rate(c.limit, c.per)
			t.want("one too many", err, &broker.RateError{})
			r, _ := errors.AsType[*broker.RateError](err)
			if r == nil || r.Key != "mint" || r.RetryAfter <= 0 || r.RetryAfter > c.per {
				t.Fatalf("got %+v", r)
			}
			if r.RetryAfter > 2*time.Millisecond {
				t.clock.move(r.RetryAfter - 2*time.Millisecond)
				t.want("before RetryAfter", t.rate(c.limit, c.per), &broker.RateError{})
				t.clock.move(2 * time.Millisecond)
			} else {
				t.clock.move(r.RetryAfter)
			}
			t.want("after RetryAfter", t.rate(c.limit, c.per), nil)
			t.clock.move(2 * c.per)
		}
		t.clock.move(time.Hour)
	}
	t.want("a limit of 0", t.rate(0, time.Minute), &broker.RateError{})
	t.want("a limit below 0", t.rate(-1, time.Minute), &broker.RateError{})
	_, err := t.l.Admit(t.ctx, broker.Admission{Rates: []broker.Rate{{Key: "other", Limit: 1, Per: time.Minute}}})
	t.want("another key", err, nil)
}

func gateRateRace(t *liveStoreTest) {
	other := t.second()
	wins := t.race(16, func(i int) (bool, error) {
		l := t.l
		if i%2 == 1 {
			l = other
		}
		_, err := l.Admit(t.ctx, broker.Admission{Rates: []broker.Rate{{Key: "mint", Limit: 5, Per: time.Minute}}})
		if class(err) == "rate" {
			return false, nil
		}
		return err == nil, err
	})
	if wins != 5 {
		t.Errorf("%d events under a rate of 5", wins)
	}
}

// A clock that is set back must not block a task for the length of the jump.
func gateRateClockBack(t *liveStoreTest) {
	for range 3 {
		t.want("event", t.rate(3, time.Minute), nil)
	}
	t.clock.move(-100 * time.Hour)
	t.want("after the clock was set back", t.rate(3, time.Minute), &broker.RateError{})
	t.clock.move(time.Minute)
	t.want("a minute later", t.rate(3, time.Minute), nil)
}
