package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-broker/ebb/broker"
)

// liveStoreModel compares a LiveStore with the simplest implementation of its contract, over
// random histories of three tasks, six leases and a few keys.
func liveStoreModel(t *liveStoreTest) {
	var round atomic.Int64
	rapid.Check(t.T, func(rt *rapid.T) {
		m := &model{
			liveStoreTest: t, rt: rt, round: int(round.Add(1)), start: t.clock.ms.Load(),
			tasks: map[string]*modelTask{}, ended: map[string]bool{},
			claims: map[string]modelClaim{}, values: map[string]modelClaim{},
		}
		_, m.cursor = t.follow("", 1000)
		for {
			evs, next := t.follow(m.cursor, 1000)
			if m.cursor = next; len(evs) == 0 {
				break
			}
		}
		defer m.finish()
		rt.Repeat(map[string]func(*rapid.T){
			"": m.check, "put task": m.putTask, "set state": m.setState, "touch": m.touch, "due": m.due,
			"put lease": m.putLease, "end lease": m.endLease, "claim": m.claim, "put": m.putValue, "take": m.take, "pass time": m.passTime,
		})
	})
}

// modelTask is the state of a task, as plain values.
type modelTask struct {
	live   broker.Live
	hidden int64
	leases map[string]int64
	counts broker.Counts
}

type modelClaim struct {
	value string
	until int64
}

type model struct {
	*liveStoreTest
	rt     *rapid.T
	round  int
	start  int64
	tasks  map[string]*modelTask
	ended  map[string]bool
	claims map[string]modelClaim
	values map[string]modelClaim
	events []broker.Event
	cursor string
}

func (m *model) taskID() string {
	return fmt.Sprintf("tsk_%016x%016x", m.round, rapid.IntRange(0, 2).Draw(m.rt, "task"))
}

func (m *model) leaseOf(task string) broker.LiveLease {
	n := rapid.IntRange(0, 5).Draw(m.rt, "lease")
	// The expiry of a lease never changes.
	exp := m.start + int64(n+1)*20_000
	return broker.LiveLease{ID: fmt.Sprintf("lse_%s_%d", task[4:], n), TaskID: task, ExpiresAt: time.UnixMilli(exp).UTC()}
}

func (m *model) expect(call string, err error, want string) {
	if got := class(err); got != want {
		m.rt.Fatalf("%s: got error %v, want %q", call, err, want)
	}
}

func (m *model) equal(what string, got, want any) {
	if g, w := text(got), text(want); g != w {
		m.rt.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func (m *model) count(t *modelTask) (c broker.Counts) {
	for _, exp := range t.leases {
		if exp > m.now().UnixMilli() {
			c.Live++
		} else {
			c.Expired++
		}
	}
	return c
}

func (m *model) close(id string, t *modelTask, keep time.Time) {
	t.counts, t.leases = m.count(t), nil
	t.live.State = broker.TaskClosed
	m.events = append(m.events, broker.Event{TaskID: id, At: m.now(), Until: keep})
}

// passTime stays within the time for which every LiveStore must remember expired leases.
func (m *model) passTime(*rapid.T) {
	if m.clock.ms.Load()-m.start < 4*60_000 {
		m.clock.move(time.Duration(rapid.IntRange(1, 15_000).Draw(m.rt, "ms")) * time.Millisecond)
	}
}

// check compares all readable state.
func (m *model) check(*rapid.T) {
	for n := range 3 {
		id := fmt.Sprintf("tsk_%016x%016x", m.round, n)
		t := m.tasks[id]
		got, err := m.l.Admit(m.ctx, broker.Admission{TaskID: id})
		if t == nil {
			m.expect("Admit", err, broker.ErrNotFound.Error())
			t = &modelTask{}
		} else {
			m.expect("Admit", err, "")
			m.equal("task", got, t.live)
		}
		for k := range 6 {
			lease := fmt.Sprintf("lse_%s_%d", id[4:], k)
			alive, err := m.l.Status(m.ctx, id, lease, m.now())
			m.expect("Status", err, "")
			if want := t.leases[lease] > m.now().UnixMilli(); alive != want {
				m.rt.Fatalf("Status(%s) = %t, want %t", lease, alive, want)
			}
		}
	}
	evs, _, err := m.l.Follow(m.ctx, m.cursor, 1000, 0)
	m.expect("Follow", err, "")
	if len(evs) > 0 || len(m.events) > 0 {
		m.equal("events", evs, m.events)
	}
}

// finish closes open tasks, so that no task is due in the next history.
func (m *model) finish() {
	for id := range m.tasks {
		_, _, _ = m.l.SetState(m.ctx, id, broker.TaskClosed, m.now(), m.keep())
	}
}
