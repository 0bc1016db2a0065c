package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

func (t *liveStoreTest) admit(call string, a broker.Admission, want error) broker.Live {
	t.Helper()
	got, err := t.l.Admit(t.ctx, a)
	t.want(call, err, want)
	if want != nil && text(got) != text(broker.Live{}) {
		t.Errorf("%s: a failed Admit returned a task", call)
	}
	return got
}

func (t *liveStoreTest) claim(key, value string, ttl time.Duration, again bool, want error) {
	t.Helper()
	t.admit("claim "+key, broker.Admission{Claims: []broker.Claim{{Key: key, Value: value, Until: t.in(ttl), Again: again}}}, want)
}

func gateAdmit(t *liveStoreTest) {
	id := t.task(1)
	t.same("no task", t.admit("nothing", broker.Admission{}, nil), broker.Live{})
	got := t.admit("all", broker.Admission{
		TaskID: id,
		Claims: []broker.Claim{{Key: "dpop:1", Value: "1", Until: t.in(time.Minute)}, {Key: "ev:1", Value: "k", Until: t.in(time.Minute), Again: true}},
		Rates:  []broker.Rate{{Key: "task:1", Limit: 2, Per: time.Minute}, {Key: "owner:1", Limit: 9, Per: time.Minute}},
	}, nil)
	t.same("task", got, t.live(id))
	// A paused or closed task is returned: the caller reports why it refuses.
	_, _, err := t.l.SetState(t.ctx, id, broker.TaskPaused, t.now(), t.keep())
	t.want("SetState", err, nil)
	if got := t.read(id).State; got != broker.TaskPaused {
		t.Errorf("state is %s", got)
	}
	t.close(id)
	if got := t.read(id).State; got != broker.TaskClosed {
		t.Errorf("state is %s", got)
	}
}

func gateClaims(t *liveStoreTest) {
	t.claim("a", "1", time.Minute, false, nil)
	t.claim("a", "1", time.Minute, false, broker.ErrClaimed)
	t.claim("a", "2", time.Minute, false, broker.ErrClaimed)
	t.claim("b", "1", time.Minute, false, nil)
	t.claim("ev", "k1", time.Minute, true, nil)
	t.claim("ev", "k1", time.Minute, true, nil)
	t.claim("ev", "k2", time.Minute, true, broker.ErrClaimed)
	t.claim("ev", "k1", time.Minute, false, broker.ErrClaimed)
	t.claim("ev", "", time.Minute, true, broker.ErrClaimed)
	t.claim("ev", "k1", time.Minute, true, nil)
	odd := strings.Repeat("\x00|:\xff{}", 18)
	t.claim(odd, odd, time.Minute, true, nil)
	t.claim(odd, odd, time.Minute, true, nil)
	t.claim(odd, odd[1:], time.Minute, true, broker.ErrClaimed)
	long := broker.Claim{Key: strings.Repeat("k", 128), Value: strings.Repeat("v", 512), Until: t.in(time.Minute)}
	t.admit("the longest claim", broker.Admission{Claims: []broker.Claim{long}}, nil)
	_, err := t.second().Admit(t.ctx, broker.Admission{Claims: []broker.Claim{long}})
	t.want("claim by a second client", err, broker.ErrClaimed)

	// A claim that has already ended is refused.
	t.claim("past", "1", 0, false, broker.ErrClaimed)
	t.claim("past", "1", -time.Second, true, broker.ErrClaimed)
	t.claim("past", "1", time.Minute, false, nil)

	t.clock.move(time.Minute - time.Millisecond)
	t.claim("a", "1", time.Minute, false, broker.ErrClaimed)
	t.clock.move(time.Millisecond)
	t.claim("a", "2", time.Minute, false, nil)
	t.claim("a", "2", time.Minute, false, broker.ErrClaimed)
	t.claim("ev", "k2", time.Minute, true, nil)
	t.claim("ev", "k1", time.Minute, true, broker.ErrClaimed)
	t.clock.move(time.Hour)
	t.claim("a", "3", time.Minute, false, nil)
}

func gateClaimRace(t *liveStoreTest) {
	other := t.second()
	for round := range 4 {
		wins := t.race(16, func(i int) (bool, error) {
			l := t.l
			if i%2 == 1 {
				l = other
			}
			_, err := l.Admit(t.ctx, broker.Admission{Claims: []broker.Claim{{Key: "one", Value: fmt.Sprint(i), Until: t.in(time.Minute), Again: true}}})
			return won(err, broker.ErrClaimed)
		})
		if wins != 1 {
			t.Errorf("round %d: %d claims won", round, wins)
		}
		t.clock.move(time.Minute) // expired: the same race over the remaining entries
	}
}

func gateClaimClockBack(t *liveStoreTest) {
	c := broker.Claim{Key: "dpop:1", Value: "1", Until: t.in(time.Minute)}
	t.admit("claim", broker.Admission{Claims: []broker.Claim{c}}, nil)
	t.clock.move(time.Hour)
	for i := range 100 {
		t.claim(fmt.Sprint("later", i), "1", time.Minute, false, nil)
	}
	t.clock.move(-time.Hour)
	t.admit("claim after the clock was set back", broker.Admission{Claims: []broker.Claim{c}}, broker.ErrClaimed)
}

func gateOrder(t *liveStoreTest) {
	id := t.task(1)
	claim := []broker.Claim{{Key: "c", Value: "1", Until: t.in(time.Minute)}}
	rate := []broker.Rate{{Key: "r", Limit: 1, Per: time.Minute}}
	none := t.id("tsk", 9)
	t.admit("unknown task", broker.Admission{TaskID: none, Claims: claim, Rates: rate}, broker.ErrNotFound)
	t.admit("everything wrong", broker.Admission{TaskID: none, Claims: claim, Rates: rate}, broker.ErrClaimed)
	t.admit("rate and task wrong", broker.Admission{TaskID: none, Rates: rate}, &broker.RateError{})
	t.admit("claim wrong", broker.Admission{TaskID: id, Claims: claim}, broker.ErrClaimed)
	t.admit("rate wrong", broker.Admission{TaskID: id, Rates: rate}, &broker.RateError{})
	t.admit("second claim wrong", broker.Admission{TaskID: id, Claims: []broker.Claim{{Key: "d", Until: t.in(time.Minute)}, claim[0]}}, broker.ErrClaimed)
	t.admit("nothing wrong", broker.Admission{TaskID: id}, nil)
}

func gateBadInput(t *liveStoreTest) {
	ok := t.in(time.Minute)
	for name, a := range map[string]broker.Admission{
		"claim without key": {Claims: []broker.Claim{{Value: "x", Until: ok}}},
		"long key":          {Claims: []broker.Claim{{Key: strings.Repeat("k", 129), Until: ok}}},
		"long value":        {Claims: []broker.Claim{{Key: "k", Value: strings.Repeat("v", 513), Until: ok}}},
		"rate without key":  {Rates: []broker.Rate{{Limit: 1, Per: time.Second}}},
		"rate without per":  {Rates: []broker.Rate{{Key: "r", Limit: 1}}},
	} {
		t.admit(name, a, errAny)
	}
	t.claim("k", "", time.Minute, false, nil) // a refused admission made no claim
}
