package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

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
