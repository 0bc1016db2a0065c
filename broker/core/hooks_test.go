package core_test

import (
	"context"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/memstore"
	"github.com/ebb-broker/ebb/broker/sqlstore"
)

// hooks let a test run code before and after any call of a store, and make it fail.
type hooks struct {
	mu            sync.Mutex
	before, after map[string]func() error
	calls         map[string]int
}

func (h *hooks) on(op string, f func() error)     { h.set(&h.before, op, f) }
func (h *hooks) onDone(op string, f func() error) { h.set(&h.after, op, f) }

func (h *hooks) set(m *map[string]func() error, op string, f func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if *m == nil {
		*m = map[string]func() error{}
	}
	(*m)[op] = f
}

func (h *hooks) run(m *map[string]func() error, op string) error {
	h.mu.Lock()
	f := (*m)[op]
	h.mu.Unlock()
	if f == nil {
		return nil
	}
	return f()
}

// start stops waiting for a hanging hook when ctx is done, as stores do.
func (h *hooks) start(ctx context.Context, op string) error {
	h.tally(op)
	h.mu.Lock()
	hooked := h.before[op] != nil
	h.mu.Unlock()
	if !hooked {
		return nil
	}
	answer := make(chan error, 1)
	go func() { answer <- h.run(&h.before, op) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hooks) end(op string, err error) error {
	if err != nil {
		return err
	}
	return h.run(&h.after, op)
}

func (h *hooks) tally(op string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = map[string]int{}
	}
	h.calls[op]++
}

func (h *hooks) count(op string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[op]
}

// once returns a hook that fails one time.
func once(err error) func() error {
	var o sync.Once
	return func() (out error) {
		o.Do(func() { out = err })
		return out
	}
}

// memory is a LiveStore that several replicas share and that can lose everything.
type memory struct {
	mu   sync.Mutex
	l    broker.LiveStore
	now  func() time.Time
	gone int64 // how often it lost everything
}

func (m *memory) get() broker.LiveStore {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.l
}

func (m *memory) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.l = memstore.New(memstore.Config{Now: m.now})
	m.gone++
}

// Losses informs a replica at once. A real one learns of them by its next Check.
func (m *memory) Losses() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone
}

// Memory is that of the present content.
func (m *memory) Memory() string { return m.get().Memory() }

// hookLiveStore is one replica's client of the shared LiveStore.
type hookLiveStore struct {
	*memory
	h *hooks
}

func (l hookLiveStore) PutTask(ctx context.Context, t broker.Live, keep time.Time) error {
	if err := l.h.start(ctx, "PutTask"); err != nil {
		return err
	}
	return l.h.end("PutTask", l.get().PutTask(ctx, t, keep))
}

func (l hookLiveStore) SetState(ctx context.Context, id string, s broker.TaskState, at, keep time.Time) (broker.Counts, bool, error) {
	if err := l.h.start(ctx, "SetState"); err != nil {
		return broker.Counts{}, false, err
	}
	c, first, err := l.get().SetState(ctx, id, s, at, keep)
	return c, first, l.h.end("SetState", err)
}

func (l hookLiveStore) Touch(ctx context.Context, id string, u broker.Touch) (broker.Live, error) {
	if err := l.h.start(ctx, "Touch"); err != nil {
		return broker.Live{}, err
	}
	live, err := l.get().Touch(ctx, id, u)
	return live, l.h.end("Touch", err)
}

func (l hookLiveStore) Due(ctx context.Context, now, hold time.Time, n int) ([]string, error) {
	if err := l.h.start(ctx, "Due"); err != nil {
		return nil, err
	}
	return l.get().Due(ctx, now, hold, n)
}

func (l hookLiveStore) PutLease(ctx context.Context, x broker.LiveLease, limits broker.LeaseLimits, refill bool) error {
	if err := l.h.start(ctx, "PutLease"); err != nil {
		return err
	}
	return l.h.end("PutLease", l.get().PutLease(ctx, x, limits, refill))
}

func (l hookLiveStore) EndLease(ctx context.Context, x broker.LiveLease, at time.Time) (bool, error) {
	if err := l.h.start(ctx, "EndLease"); err != nil {
		return false, err
	}
	first, err := l.get().EndLease(ctx, x, at)
	return first, l.h.end("EndLease", err)
}

func (l hookLiveStore) Status(ctx context.Context, task, lease string, now time.Time) (bool, error) {
	if err := l.h.start(ctx, "Status"); err != nil {
		return false, err
	}
	return l.get().Status(ctx, task, lease, now)
}

func (l hookLiveStore) Follow(ctx context.Context, cursor string, n int, wait time.Duration) ([]broker.Event, string, error) {
	if err := l.h.start(ctx, "Follow"); err != nil {
		return nil, "", err
	}
	return l.get().Follow(ctx, cursor, n, min(wait, 100*time.Millisecond))
}

func (l hookLiveStore) Admit(ctx context.Context, a broker.Admission) (broker.Live, error) {
	if err := l.h.start(ctx, "Admit"); err != nil {
		return broker.Live{}, err
	}
	live, err := l.get().Admit(ctx, a)
	return live, l.h.end("Admit", err)
}

func (l hookLiveStore) Put(ctx context.Context, key, value string, until time.Time) error {
	if err := l.h.start(ctx, "Put"); err != nil {
		return err
	}
	return l.h.end("Put", l.get().Put(ctx, key, value, until))
}

func (l hookLiveStore) Take(ctx context.Context, key string) (string, error) {
	return l.get().Take(ctx, key)
}

func (l hookLiveStore) Pace(ctx context.Context, key string, now time.Time, p broker.Pacing, until time.Time) (time.Duration, bool, error) {
	return l.get().Pace(ctx, key, now, p, until)
}

func (l hookLiveStore) Check(ctx context.Context) error {
	if err := l.h.start(ctx, "Check"); err != nil {
		return err
	}
	return l.get().Check(ctx)
}
func (l hookLiveStore) Mark(ctx context.Context) error { return l.get().Mark(ctx) }
func (l hookLiveStore) Close() error                   { return nil }

// hookStore is the database and the approval queue.
type hookStore struct {
	*sqlstore.Store
	h *hooks
}

func (s hookStore) Append(ctx context.Context, r broker.Record) error {
	ops := []string{"Append"}
	if r.MoveTask != nil {
		ops = append(ops, "Append.move")
	}
	for _, e := range r.Entries {
		ops = append(ops, e.Kind)
	}
	for _, op := range ops {
		if err := s.h.start(ctx, op); err != nil {
			return err
		}
	}
	err := s.Store.Append(ctx, r)
	for _, op := range ops {
		err = s.h.end(op, err)
	}
	return err
}

// Begin runs concurrently with the caller, as it does in a store.
func (s hookStore) Begin(ctx context.Context, r broker.Record) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- s.Append(ctx, r) }()
	return func() error { return <-done }
}

func (s hookStore) DueBy(ctx context.Context, at time.Time) error {
	defer s.h.tally("DueBy done")
	return s.Store.DueBy(ctx, at)
}

func (s hookStore) Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]broker.Claimed, error) {
	defer s.h.tally("Take done")
	if err := s.h.start(ctx, "Take"); err != nil {
		return nil, err
	}
	return s.Store.Take(ctx, provider, now, hold, n)
}

func (s hookStore) Tasks(ctx context.Context, f broker.TaskFilter) ([]broker.Task, error) {
	if err := s.h.start(ctx, "Tasks"); err != nil {
		return nil, err
	}
	return s.Store.Tasks(ctx, f)
}

func (s hookStore) Leases(ctx context.Context, f broker.LeaseFilter) ([]broker.Lease, error) {
	if err := s.h.start(ctx, "Leases"); err != nil {
		return nil, err
	}
	return s.Store.Leases(ctx, f)
}

func (s hookStore) Requests(ctx context.Context, f broker.RequestFilter) ([]broker.Request, error) {
	if err := s.h.start(ctx, "Requests"); err != nil {
		return nil, err
	}
	return s.Store.Requests(ctx, f)
}

func (s hookStore) Vote(ctx context.Context, v broker.Vote, until time.Time, entries ...audit.Entry) (broker.Request, error) {
	if err := s.h.start(ctx, "Vote"); err != nil {
		return broker.Request{}, err
	}
	r, err := s.Store.Vote(ctx, v, until, entries...)
	return r, s.h.end("Vote", err)
}
