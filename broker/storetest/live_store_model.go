package storetest

import (
	"fmt"
	"slices"
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

func (m *model) putTask(*rapid.T) {
	l := liveTask(m.taskID(), time.UnixMilli(m.start).UTC())
	if rapid.Bool().Draw(m.rt, "boxed") {
		l.Sandbox = sandbox(rapid.IntRange(0, 1).Draw(m.rt, "box"), time.UnixMilli(m.start).UTC())
	}
	l.State = rapid.SampledFrom([]broker.TaskState{broker.TaskOpen, broker.TaskOpen, broker.TaskPaused, broker.TaskClosed}).Draw(m.rt, "state")
	l.Denials = rapid.IntRange(0, 3).Draw(m.rt, "denials")
	l.Taint = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2).Draw(m.rt, "taint")
	keep := m.keep()
	m.expect("PutTask", m.l.PutTask(m.ctx, l, keep), "")

	l.Taint = union(nil, l.Taint)
	level := map[broker.TaskState]int{broker.TaskOpen: 1, broker.TaskPaused: 2, broker.TaskClosed: 3}
	t := m.tasks[l.ID]
	if t == nil {
		t = &modelTask{leases: map[string]int64{}, live: l}
		m.tasks[l.ID] = t
		if l.State == broker.TaskClosed {
			m.close(l.ID, t, keep)
		}
		return
	}
	had := t.live
	if level[l.State] >= level[had.State] {
		t.live.Task = l.Task
	}
	if t.live.Sandbox = had.Sandbox; t.live.Sandbox == nil {
		t.live.Sandbox = l.Sandbox
	}
	if t.live.ClosedAt.IsZero() {
		t.live.ClosedAt = had.ClosedAt
	}
	if had.Due.IsZero() {
		t.live.Due = l.Due
	}
	t.live.Denials = max(had.Denials, l.Denials)
	t.live.Taint = union(had.Taint, l.Taint)
	if l.State == broker.TaskClosed && had.State != broker.TaskClosed {
		m.close(l.ID, t, keep)
	}
}

func union(a, b []string) []string {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

func (m *model) setState(*rapid.T) {
	id := m.taskID()
	s := rapid.SampledFrom([]broker.TaskState{broker.TaskOpen, broker.TaskPaused, broker.TaskClosed}).Draw(m.rt, "state")
	keep := m.keep()
	counts, first, err := m.l.SetState(m.ctx, id, s, m.now(), keep)
	t := m.tasks[id]
	switch {
	case t == nil && s != broker.TaskClosed:
		m.expect("SetState", err, broker.ErrNotFound.Error())
		return
	case t != nil && t.live.State == broker.TaskClosed && s != broker.TaskClosed:
		m.expect("SetState", err, broker.ErrTaskClosed.Error())
		return
	case t == nil:
		t = &modelTask{live: broker.Live{Task: broker.Task{ID: id}}}
		m.tasks[id] = t
	}
	m.expect("SetState", err, "")
	wantFirst := t.live.State != broker.TaskClosed
	if s == broker.TaskClosed && wantFirst {
		m.close(id, t, keep)
		t.live.ClosedAt = m.now()
	}
	want := t.counts
	if s != broker.TaskClosed {
		t.live.State, want = s, m.count(t)
	}
	if s == broker.TaskPaused {
		m.events = append(m.events, broker.Event{TaskID: id, LeaseID: broker.PauseMark, At: m.now(), Until: m.now().Add(broker.PauseKept)})
	}
	m.equal("counts", counts, want)
	m.equal("first", first, wantFirst)
}

func (m *model) touch(*rapid.T) {
	id := m.taskID()
	u := broker.Touch{Denials: rapid.IntRange(0, 2).Draw(m.rt, "denials"), Taint: rapid.SliceOfN(rapid.SampledFrom([]string{"c", "d"}), 0, 1).Draw(m.rt, "taint")}
	if rapid.Bool().Draw(m.rt, "moves") {
		u.Due = m.in(time.Duration(rapid.IntRange(-5, 40).Draw(m.rt, "due")) * time.Second)
	}
	if rapid.Bool().Draw(m.rt, "boxed") {
		u.Sandbox = sandbox(rapid.IntRange(0, 1).Draw(m.rt, "box"), m.now())
	}
	got, err := m.l.Touch(m.ctx, id, u)
	t := m.tasks[id]
	switch {
	case t == nil:
		m.expect("Touch", err, broker.ErrNotFound.Error())
		return
	case t.live.State == broker.TaskClosed:
		m.expect("Touch", err, broker.ErrTaskClosed.Error())
		return
	case u.Sandbox != nil && t.live.Sandbox != nil && t.live.Sandbox.JKT != u.Sandbox.JKT:
		m.expect("Touch", err, broker.ErrClaimed.Error())
		return
	}
	m.expect("Touch", err, "")
	if t.live.Sandbox == nil {
		t.live.Sandbox = u.Sandbox
	}
	if !u.Due.IsZero() {
		t.live.Due, t.hidden = u.Due, 0
	}
	t.live.Denials += u.Denials
	t.live.Taint = union(t.live.Taint, u.Taint)
	m.equal("touched task", got, t.live)
}

func (m *model) due(*rapid.T) {
	hold := time.Duration(rapid.IntRange(1, 30).Draw(m.rt, "hold")) * time.Second
	all, err := m.l.Due(m.ctx, m.now(), m.in(hold), 1000)
	m.expect("Due", err, "")
	slices.Sort(all)
	var want []string
	for id, t := range m.tasks {
		now := m.now().UnixMilli()
		if t.live.State != broker.TaskClosed && t.live.Due.UnixMilli() <= now && t.hidden <= now {
			want = append(want, id)
			t.hidden = m.in(hold).UnixMilli()
		}
	}
	slices.Sort(want)
	m.equal("due", all, want)
}

func (m *model) putLease(*rapid.T) {
	id := m.taskID()
	l := m.leaseOf(id)
	limit, owner := rapid.IntRange(0, 3).Draw(m.rt, "limit"), rapid.IntRange(0, 3).Draw(m.rt, "owner")
	refill := rapid.Bool().Draw(m.rt, "refill")
	err := m.l.PutLease(m.ctx, l, broker.LeaseLimits{Task: limit, Owner: owner}, refill)
	t := m.tasks[id]
	want := ""
	switch {
	case t == nil:
		want = broker.ErrNotFound.Error()
	case t.live.State == broker.TaskClosed:
		want = broker.ErrTaskClosed.Error()
	case t.live.State == broker.TaskPaused && !refill:
		want = broker.ErrTaskPaused.Error()
	case m.ended[l.ID]:
		want = broker.ErrDone.Error()
	case t.leases[l.ID] != 0:
	case limit > 0 && m.count(t).Live >= limit:
		want = broker.ErrCap.Error()
	case owner > 0 && l.ExpiresAt.After(m.now()) && m.held() >= owner:
		want = broker.ErrOwnerCap.Error()
	default:
		t.leases[l.ID] = l.ExpiresAt.UnixMilli()
	}
	m.expect("PutLease", err, want)
}

// held returns the number of leases of the one owner of all tasks.
func (m *model) held() (n int) {
	for _, t := range m.tasks {
		n += m.count(t).Live
	}
	return n
}

func (m *model) endLease(*rapid.T) {
	l := m.leaseOf(m.taskID())
	first, err := m.l.EndLease(m.ctx, l, m.now())
	m.expect("EndLease", err, "")
	m.equal("first", first, !m.ended[l.ID])
	if !m.ended[l.ID] {
		m.ended[l.ID] = true
		m.events = append(m.events, broker.Event{TaskID: l.TaskID, LeaseID: l.ID, At: m.now(), Until: l.ExpiresAt})
	}
	if t := m.tasks[l.TaskID]; t != nil {
		delete(t.leases, l.ID)
	}
}

func (m *model) claim(*rapid.T) {
	c := broker.Claim{
		Key:   fmt.Sprint("model:", m.round, ":", rapid.IntRange(0, 2).Draw(m.rt, "key")),
		Value: fmt.Sprint(rapid.IntRange(0, 1).Draw(m.rt, "value")), Again: rapid.Bool().Draw(m.rt, "again"),
		Until: m.in(time.Duration(rapid.IntRange(-1, 60).Draw(m.rt, "ttl")) * time.Second),
	}
	_, err := m.l.Admit(m.ctx, broker.Admission{Claims: []broker.Claim{c}})
	had, known := m.claims[c.Key]
	now, until := m.now().UnixMilli(), c.Until.UnixMilli()
	switch {
	case until <= now, known && had.until > now && (!c.Again || had.value != c.Value):
		m.expect("claim", err, broker.ErrClaimed.Error())
	default:
		m.expect("claim", err, "")
		if !known || had.until <= now {
			m.claims[c.Key] = modelClaim{c.Value, until}
		}
	}
}

func (m *model) putValue(*rapid.T) {
	key := fmt.Sprint("model:", m.round, ":", rapid.IntRange(0, 1).Draw(m.rt, "key"))
	v := modelClaim{fmt.Sprint(rapid.Int().Draw(m.rt, "value")), m.in(time.Duration(rapid.IntRange(0, 30).Draw(m.rt, "ttl")) * time.Second).UnixMilli()}
	m.expect("Put", m.l.Put(m.ctx, key, v.value, time.UnixMilli(v.until)), "")
	m.values[key] = v
}

func (m *model) take(*rapid.T) {
	key := fmt.Sprint("model:", m.round, ":", rapid.IntRange(0, 1).Draw(m.rt, "key"))
	got, err := m.l.Take(m.ctx, key)
	if v, known := m.values[key]; known && v.until > m.now().UnixMilli() {
		m.expect("Take", err, "")
		m.equal("value", got, v.value)
		delete(m.values, key)
		return
	}
	m.expect("Take", err, broker.ErrNotFound.Error())
}
