package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// due takes the due tasks, for a minute.
func (t *liveStoreTest) due(l broker.LiveStore, want ...int) {
	t.Helper()
	got, err := l.Due(t.ctx, t.now(), t.in(time.Minute), 100)
	t.want("Due", err, nil)
	slices.Sort(got)
	var ids []string
	for _, n := range want {
		ids = append(ids, t.id("tsk", n))
	}
	if !slices.Equal(got, ids) {
		t.Errorf("due are %v, want %v", got, ids)
	}
}

func taskDue(t *liveStoreTest) {
	for i := range 5 {
		l := t.live(t.id("tsk", i))
		l.Due = t.in(time.Duration(i) * 10 * time.Second)
		t.put(l)
	}
	never := t.live(t.id("tsk", 7))
	never.Due = time.Time{}
	t.put(never)
	t.due(t.l, 0)
	t.due(t.l)
	t.clock.move(20 * time.Second)
	_, _, err := t.l.SetState(t.ctx, t.id("tsk", 2), broker.TaskPaused, t.now(), t.keep())
	t.want("SetState", err, nil)
	got, err := t.l.Due(t.ctx, t.now(), t.in(time.Minute), 1)
	t.want("Due", err, nil)
	t.same("one of two", got, []string{t.id("tsk", 1)})
	t.due(t.second(), 2)
	// The takers died: the tasks that they held are due again.
	t.clock.move(time.Minute)
	t.due(t.l, 0, 1, 2, 3, 4)
	t.close(t.id("tsk", 3))
	t.clock.move(61 * time.Second)
	t.due(t.l, 0, 1, 2, 4)
}

func taskDueMoves(t *liveStoreTest) {
	id := t.task(1) // due in 30 s
	touch := func(d time.Duration) {
		t.Helper()
		_, err := t.l.Touch(t.ctx, id, broker.Touch{Due: t.in(d)})
		t.want("Touch", err, nil)
	}
	touch(60 * time.Second)
	t.clock.move(30 * time.Second)
	t.due(t.l) // moved later
	touch(10 * time.Second)
	t.clock.move(10 * time.Second)
	t.due(t.l, 1) // moved earlier
	touch(20 * time.Second)
	t.clock.move(20 * time.Second)
	t.due(t.l, 1) // moved while held
	t.put(t.live(id))
	t.due(t.l) // putting the task again does not make it visible
	t.clock.move(time.Minute)
	t.due(t.l, 1)
	_, err := t.l.Touch(t.ctx, id, broker.Touch{Denials: 1})
	t.want("Touch", err, nil)
	t.due(t.l) // another touch does not make it visible
}

func taskDueFencing(t *liveStoreTest) {
	for i := range 40 {
		t.task(i)
	}
	t.clock.move(time.Minute)
	other := t.second()
	taken := make([]atomic.Int64, 40)
	t.race(16, func(i int) (bool, error) {
		l := t.l
		if i%2 == 1 {
			l = other
		}
		for range 4 {
			ids, err := l.Due(t.ctx, t.now(), t.in(time.Minute), 3)
			if err != nil {
				return false, err
			}
			for _, id := range ids {
				var n int
				if _, err := fmt.Sscanf(id, "tsk_%x", &n); err != nil {
					return false, err
				}
				taken[n].Add(1)
			}
		}
		return true, nil
	})
	for n := range taken {
		if got := taken[n].Load(); got != 1 {
			t.Errorf("task %d was taken %d times", n, got)
		}
	}
}
