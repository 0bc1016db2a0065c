package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

func taskPutAndRead(t *liveStoreTest) {
	want := t.live(t.id("tsk", 1))
	want.Sandbox = sandbox(1, t.now())
	want.Denials, want.Violations, want.Taint = 3, 4, []string{"b", "a\x00|\n", "web:évil", "b"}
	want.Reason = "waits"
	put := want
	// Every time is truncated to milliseconds.
	put.OpenedAt, put.Due = put.OpenedAt.Add(999), put.Due.Add(999)
	box := *put.Sandbox
	box.At = box.At.Add(999)
	put.Sandbox = &box
	t.put(put)
	want.Taint = []string{"a\x00|\n", "b", "web:évil"}
	t.same("task", t.read(want.ID), want)
	got, err := t.second().Admit(t.ctx, broker.Admission{TaskID: want.ID})
	t.want("Admit by a second client", err, nil)
	t.same("task by a second client", got, want)

	// The returned values are copies.
	got.Labels["team"], got.Sandbox.Subject, got.Taint[0], got.Expect.Selectors["ns"] = "x", "x", "x", "x"
	box.Subject = "x"
	t.same("task after its copy was changed", t.read(want.ID), want)

	t.put(put)
	t.same("task put twice", t.read(want.ID), want)
	_, err = t.l.Admit(t.ctx, broker.Admission{TaskID: t.id("tsk", 99)})
	t.want("Admit of an unknown task", err, broker.ErrNotFound)
}

func taskPutMonotonic(t *liveStoreTest) {
	first := t.live(t.id("tsk", 1))
	// Without its ancestors, a delegated task would outlive them.
	first.Ancestors = []string{t.id("tsk", 8), t.id("tsk", 9)}
	first.Delegation = &broker.Delegation{Expect: broker.Expect{Attestor: "enroll", Selectors: map[string]string{"a": "b"}}, Depth: 2, Open: 3}
	t.put(first)
	_, err := t.l.Touch(t.ctx, first.ID, broker.Touch{Sandbox: sandbox(1, t.now()), Denials: 2, Violations: 1, Taint: []string{"web"}, Due: t.in(5 * time.Minute)})
	t.want("Touch", err, nil)
	want := t.read(first.ID)
	t.same("above it", want.Ancestors, first.Ancestors)
	t.same("what it may delegate", want.Delegation, first.Delegation)

	// A refill with less data removes none.
	t.put(first)
	t.same("put again", t.read(first.ID), want)
	other := first
	other.Sandbox = sandbox(2, t.now())
	other.Denials, other.Violations, other.Taint = 1, 7, []string{"mail"}
	t.put(other)
	want.Violations, want.Taint = 7, []string{"mail", "web"}
	t.same("put with other facts", t.read(first.ID), want)

	// The stricter state stays.
	paused := first
	paused.State = broker.TaskPaused
	t.put(paused)
	want.State = broker.TaskPaused
	t.same("put paused", t.read(first.ID), want)
	t.put(first)
	t.same("put open over paused", t.read(first.ID), want)

	l := t.lease(first.ID, 1, time.Minute)
	t.want("PutLease refill", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, true), nil)
	t.close(first.ID)
	for _, again := range []broker.Live{first, paused} {
		t.put(again)
		if got := t.read(first.ID).State; got != broker.TaskClosed {
			t.Errorf("put %s reopened a closed task: %s", again.State, got)
		}
		t.alive(false, l)
		t.want("PutLease", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, true), broker.ErrTaskClosed)
	}
	if box := t.read(first.ID).Sandbox; box == nil || box.ID != sandbox(1, t.now()).ID {
		t.Errorf("sandbox is %+v", box)
	}

	// Put as closed first, or closed by a put: no lease lives in it.
	shut := t.live(t.id("tsk", 2))
	shut.State, shut.Cause, shut.ClosedAt = broker.TaskClosed, broker.CauseCompleted, t.now()
	t.put(shut)
	t.same("closed task", t.read(shut.ID), shut)
	opened := t.live(t.id("tsk", 3))
	t.put(opened)
	l = t.lease(opened.ID, 3, time.Minute)
	t.putLease(l)
	opened.State = broker.TaskClosed
	t.put(opened)
	t.alive(false, l)
	t.want("PutLease", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, true), broker.ErrTaskClosed)
}

func taskStates(t *liveStoreTest) {
	id := t.task(1)
	for _, s := range []broker.TaskState{broker.TaskPaused, broker.TaskPaused, broker.TaskOpen, broker.TaskOpen, broker.TaskPaused} {
		_, first, err := t.l.SetState(t.ctx, id, s, t.now(), t.keep())
		t.want("SetState", err, nil)
		if got := t.read(id).State; got != s || !first {
			t.Errorf("state is %s, first %t, want %s, true", got, first, s)
		}
	}
	t.close(id)
	for _, s := range []broker.TaskState{broker.TaskPaused, broker.TaskOpen} {
		_, first, err := t.l.SetState(t.ctx, id, s, t.now(), t.keep())
		t.want("SetState of a closed task", err, broker.ErrTaskClosed)
		if first {
			t.Errorf("first is true")
		}
		_, _, err = t.l.SetState(t.ctx, t.id("tsk", 9), s, t.now(), t.keep())
		t.want("SetState of an unknown task", err, broker.ErrNotFound)
	}
	if got := t.read(id).State; got != broker.TaskClosed {
		t.Errorf("state is %s", got)
	}
}

func taskClosing(t *liveStoreTest) {
	id := t.task(1)
	for i := range 3 {
		t.putLease(t.lease(id, i, time.Minute))
	}
	t.putLease(t.lease(id, 3, time.Second))
	t.clock.move(2 * time.Second)
	at := t.now()
	want := broker.Counts{Live: 3, Expired: 1}
	for i, first := range []bool{true, false, false} {
		got, f, err := t.l.SetState(t.ctx, id, broker.TaskClosed, at.Add(time.Duration(i)*time.Second), t.keep())
		t.want("SetState", err, nil)
		if f != first || got != want {
			t.Errorf("closing %d: %+v, first %t, want %+v, %t", i, got, f, want, first)
		}
	}
	if got := t.read(id); got.State != broker.TaskClosed || !got.ClosedAt.Equal(at) {
		t.Errorf("task is %s since %s, want closed since %s", got.State, got.ClosedAt, at)
	}
	for i := range 4 {
		t.alive(false, t.lease(id, i, time.Minute))
	}
}

func taskTombstone(t *liveStoreTest) {
	id := t.id("tsk", 1)
	counts, first, err := t.l.SetState(t.ctx, id, broker.TaskClosed, t.now(), t.keep())
	t.want("SetState", err, nil)
	if !first || counts != (broker.Counts{}) {
		t.Errorf("got %+v, first %t", counts, first)
	}
	if got := t.read(id); got.ID != id || got.State != broker.TaskClosed {
		t.Errorf("tombstone reads as %+v", got)
	}
	l := t.lease(id, 1, time.Minute)
	t.want("PutLease", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, true), broker.ErrTaskClosed)
	_, err = t.l.Touch(t.ctx, id, broker.Touch{Denials: 1})
	t.want("Touch", err, broker.ErrTaskClosed)
	// A refill that read the database before the close must not open the task again.
	t.put(t.live(id))
	if got := t.read(id); got.State != broker.TaskClosed {
		t.Errorf("put opened a task that was closed unseen: %s", got.State)
	}
	t.want("PutLease", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, true), broker.ErrTaskClosed)
	t.alive(false, l)
	if _, first, _ = t.l.SetState(t.ctx, id, broker.TaskClosed, t.now(), t.keep()); first {
		t.Errorf("closed first twice")
	}
}

func taskKeep(t *liveStoreTest) {
	id := t.task(1)
	keep := t.in(time.Minute)
	_, _, err := t.l.SetState(t.ctx, id, broker.TaskClosed, t.now(), keep)
	t.want("SetState", err, nil)
	t.clock.move(time.Minute - time.Millisecond)
	for range 100 { // expired data is removed during calls
		t.task(2)
	}
	if got := t.read(id).State; got != broker.TaskClosed {
		t.Errorf("state is %s before keep", got)
	}
	t.want("PutLease", t.l.PutLease(t.ctx, t.lease(id, 1, time.Minute), broker.LeaseLimits{}, false), broker.ErrTaskClosed)
	// An open task is never forgotten.
	t.clock.move(1000 * time.Hour)
	for range 100 {
		t.task(3)
	}
	if got := t.read(t.id("tsk", 2)).State; got != broker.TaskOpen {
		t.Errorf("state is %s", got)
	}
}

func taskBadInput(t *liveStoreTest) {
	for _, l := range []broker.Live{{}, {Task: broker.Task{ID: "tsk_1"}}, {Task: broker.Task{ID: "tsk_1", State: "dead"}}, {Task: broker.Task{State: broker.TaskOpen}}} {
		t.want("PutTask", t.l.PutTask(t.ctx, l, t.keep()), errAny)
	}
	id := t.task(1)
	for _, s := range []broker.TaskState{"", "dead"} {
		_, _, err := t.l.SetState(t.ctx, id, s, t.now(), t.keep())
		t.want("SetState", err, errAny)
	}
	if got := t.read(id).State; got != broker.TaskOpen {
		t.Errorf("state is %s", got)
	}
}

func taskCloseRace(t *liveStoreTest) {
	id := t.task(1)
	for i := range 10 {
		t.putLease(t.lease(id, i, time.Minute))
	}
	other := t.second()
	wins := t.race(16, func(i int) (bool, error) {
		l := t.l
		if i%2 == 1 {
			l = other
		}
		c, first, err := l.SetState(t.ctx, id, broker.TaskClosed, t.now(), t.keep())
		if c.Live != 10 {
			err = fmt.Errorf("counts %+v", c)
		}
		return first, err
	})
	if wins != 1 {
		t.Errorf("%d calls closed the task first", wins)
	}
}

func taskTouch(t *liveStoreTest) {
	want := t.live(t.id("tsk", 1))
	t.put(want)
	touch := func(u broker.Touch) {
		t.Helper()
		got, err := t.l.Touch(t.ctx, want.ID, u)
		t.want("Touch", err, nil)
		t.same("result", got, want)
		t.same("task", t.read(want.ID), want)
	}
	touch(broker.Touch{})
	want.Denials = 1
	touch(broker.Touch{Denials: 1})
	want.Denials, want.Violations = 3, 5
	touch(broker.Touch{Denials: 2, Violations: 5})
	want.Due = t.in(90 * time.Second)
	touch(broker.Touch{Due: want.Due.Add(500)})
	want.Taint = []string{"a", "b"}
	touch(broker.Touch{Taint: []string{"b", "a", "b"}})
	want.Taint = []string{"a", "aa", "b"}
	touch(broker.Touch{Taint: []string{"aa", "b"}})
	want.Sandbox = sandbox(1, t.now())
	touch(broker.Touch{Sandbox: sandbox(1, t.now())})
	// A second attestation of the same sandbox is accepted; the first facts stay.
	again := sandbox(1, t.in(time.Minute))
	again.Selectors = nil
	touch(broker.Touch{Sandbox: again})

	for _, change := range []func(*broker.Sandbox){
		func(s *broker.Sandbox) { s.JKT = "x" },
		func(s *broker.Sandbox) { s.Subject = "x" },
		func(s *broker.Sandbox) { s.Attestor = "x" },
		func(s *broker.Sandbox) { s.ID = "x" },
	} {
		other := sandbox(1, t.now())
		change(other)
		_, err := t.l.Touch(t.ctx, want.ID, broker.Touch{Sandbox: other, Denials: 100, Taint: []string{"z"}, Due: t.in(time.Hour)})
		t.want("Touch with another sandbox", err, broker.ErrClaimed)
		t.same("task", t.read(want.ID), want)
	}
	_, err := t.l.Touch(t.ctx, t.id("tsk", 9), broker.Touch{Denials: 1})
	t.want("Touch of an unknown task", err, broker.ErrNotFound)
	want.State = broker.TaskPaused
	_, _, err = t.l.SetState(t.ctx, want.ID, broker.TaskPaused, t.now(), t.keep())
	t.want("SetState", err, nil)
	want.Denials++
	touch(broker.Touch{Denials: 1})
	t.close(want.ID)
	_, err = t.l.Touch(t.ctx, want.ID, broker.Touch{Denials: 1})
	t.want("Touch of a closed task", err, broker.ErrTaskClosed)
}

func taskTouchRace(t *liveStoreTest) {
	id := t.task(1)
	t.race(16, func(i int) (bool, error) {
		_, err := t.l.Touch(t.ctx, id, broker.Touch{Denials: 1, Violations: 2, Taint: []string{fmt.Sprint(i % 4)}})
		return true, err
	})
	got := t.read(id)
	if got.Denials != 16 || got.Violations != 32 || len(got.Taint) != 4 {
		t.Errorf("got %d, %d, %v, want 16, 32 and 4 taints", got.Denials, got.Violations, got.Taint)
	}
}

func taskSandboxRace(t *liveStoreTest) {
	id := t.task(1)
	wins := t.race(16, func(i int) (bool, error) {
		_, err := t.l.Touch(t.ctx, id, broker.Touch{Sandbox: sandbox(i, t.now())})
		return won(err, broker.ErrClaimed)
	})
	if wins != 1 {
		t.Errorf("%d sandboxes won", wins)
	}
}

// A task keeps a limited number of taint names, and a marker that there were more, for
// any reporters and any order.
func taskTaintBound(t *liveStoreTest) {
	want := t.live(t.id("tsk", 1))
	t.put(want)
	var got broker.Live
	l := t.second()
	touch := func(sources ...string) {
		t.Helper()
		var err error
		got, err = l.Touch(t.ctx, want.ID, broker.Touch{Taint: sources})
		t.want("touch", err, nil)
	}
	for i := range broker.MaxTaint {
		touch(fmt.Sprintf("s%03d", i))
	}
	if len(got.Taint) != broker.MaxTaint {
		t.Fatalf("%d names, want %d", len(got.Taint), broker.MaxTaint)
	}
	touch("s000", "s001")
	t.same("known names", slices.Contains(got.Taint, broker.MoreTaint), false)
	touch("web", "s000", "mail")
	touch("chat")
	again := want
	again.Taint = []string{"x", "y", broker.MoreTaint}
	t.put(again)
	touch("z")
	live, err := t.l.Admit(t.ctx, broker.Admission{TaskID: want.ID})
	t.want("admit", err, nil)
	if n := len(live.Taint); n != broker.MaxTaint+1 || live.Taint[0] != broker.MoreTaint || live.Taint[n-1] != "s063" {
		t.Errorf("%d names from %q to %q, want %d and the marker", n, live.Taint[0], live.Taint[n-1], broker.MaxTaint)
	}
	want = t.live(t.id("tsk", 2))
	want.Taint = []string{broker.MoreTaint}
	t.put(want)
	touch("web")
	t.same("a marker is no name", got.Taint, []string{broker.MoreTaint, "web"})
}
