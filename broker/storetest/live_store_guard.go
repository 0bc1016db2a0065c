package storetest

import (
	"context"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

func guardMark(t *liveStoreTest) {
	t.want("Check of a live store that was never marked", t.l.Check(t.ctx), broker.ErrLost)
	t.same("the name of its memory", t.l.Memory(), "")
	t.want("Mark", t.l.Mark(t.ctx), nil)
	t.want("Check", t.l.Check(t.ctx), nil)
	id := t.task(1)
	t.putLease(t.lease(id, 1, time.Minute))
	_, err := t.l.EndLease(t.ctx, t.lease(id, 1, time.Minute), t.now())
	t.want("EndLease", err, nil)
	t.close(id)
	other := t.second()
	for range 3 {
		t.want("Check", t.l.Check(t.ctx), nil)
		t.want("Check by a second client", other.Check(t.ctx), nil)
		t.clock.move(time.Minute)
	}
	name := t.l.Memory()
	if len(name) < 22 {
		t.Errorf("the name of a memory is %q, want 128 bits at least", name)
	}
	t.same("the name of the memory at a second client", other.Memory(), name)
	before := []int64{t.l.Losses(), other.Losses()}
	t.want("Mark again", other.Mark(t.ctx), nil)
	t.want("Check", t.l.Check(t.ctx), nil)
	t.want("Check by a second client", other.Check(t.ctx), nil)
	t.same("losses of a live store that lost nothing", []int64{t.l.Losses(), other.Losses()}, before)
	t.same("the names of its memory", []string{t.l.Memory(), other.Memory()}, []string{name, name})
	t.race(16, func(i int) (bool, error) {
		l := t.l
		if i%2 == 1 {
			l = other
		}
		if i%3 == 0 {
			_, _, err := l.SetState(t.ctx, t.id("tsk", i), broker.TaskClosed, t.now(), t.keep())
			return true, err
		}
		return true, l.Check(t.ctx)
	})
}

func guardContext(t *liveStoreTest) {
	id := t.task(1)
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	for name, err := range t.calls(ctx, id) {
		t.want(name+" with an ended context", err, errAny)
	}
}

func guardClose(t *liveStoreTest) {
	id := t.task(1)
	l := t.second()
	waiting := make(chan error)
	go func() {
		_, _, err := t.l.Follow(t.ctx, "", 10, time.Minute)
		waiting <- err
	}()
	t.want("Close", t.l.Close(), nil)
	select {
	case err := <-waiting:
		t.want("Follow", err, errAny)
	case <-time.After(2 * time.Minute):
		t.Errorf("Follow outlived the live store")
	}
	t.want("Close again", t.l.Close(), nil)
	for name, err := range t.calls(t.ctx, id) {
		t.want(name+" after Close", err, errAny)
	}
	_ = l.Close()
}

// calls makes every call once.
func (t *liveStoreTest) calls(ctx context.Context, id string) map[string]error {
	out := map[string]error{}
	lease := t.lease(id, 1, time.Minute)
	out["PutTask"] = t.l.PutTask(ctx, t.live(id), t.keep())
	_, _, out["SetState"] = t.l.SetState(ctx, id, broker.TaskClosed, t.now(), t.keep())
	_, out["Touch"] = t.l.Touch(ctx, id, broker.Touch{Denials: 1, Due: t.now()})
	_, out["Due"] = t.l.Due(ctx, t.now(), t.now(), 1)
	out["PutLease"] = t.l.PutLease(ctx, lease, broker.LeaseLimits{}, false)
	_, out["EndLease"] = t.l.EndLease(ctx, lease, t.now())
	_, out["Status"] = t.l.Status(ctx, id, lease.ID, t.now())
	_, _, out["Follow"] = t.l.Follow(ctx, "", 1, 0)
	_, out["Admit"] = t.l.Admit(ctx, broker.Admission{TaskID: id, Claims: []broker.Claim{{Key: "k", Until: t.in(time.Minute)}}})
	out["Put"] = t.l.Put(ctx, "k", "v", t.in(time.Minute))
	_, out["Take"] = t.l.Take(ctx, "k")
	_, _, out["Pace"] = t.l.Pace(ctx, "k", t.now(), broker.Pacing{Interval: time.Second, Step: time.Second, Most: time.Minute}, t.in(time.Minute))
	out["Check"] = t.l.Check(ctx)
	out["Mark"] = t.l.Mark(ctx)
	return out
}
