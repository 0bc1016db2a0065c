package api_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// errStore is the error of a failing store. All of its text is internal.
var errStore = errors.New("dial tcp 10.0.0.5:6379: redis: sql: password=hunter2 (/srv/ebb/store.go:42)")

// faults is a switch that makes real stores fail.
type faults struct{ liveStore, store, approvalStore atomic.Bool }

type faultyLiveStore struct {
	broker.LiveStore
	on *atomic.Bool
}

func (l faultyLiveStore) fault() error {
	if l.on.Load() {
		return errStore
	}
	return nil
}

func (l faultyLiveStore) PutTask(ctx context.Context, t broker.Live, keep time.Time) error {
	if err := l.fault(); err != nil {
		return err
	}
	return l.LiveStore.PutTask(ctx, t, keep)
}

func (l faultyLiveStore) SetState(ctx context.Context, id string, s broker.TaskState, at, keep time.Time) (broker.Counts, bool, error) {
	if err := l.fault(); err != nil {
		return broker.Counts{}, false, err
	}
	return l.LiveStore.SetState(ctx, id, s, at, keep)
}

func (l faultyLiveStore) Touch(ctx context.Context, id string, u broker.Touch) (broker.Live, error) {
	if err := l.fault(); err != nil {
		return broker.Live{}, err
	}
	return l.LiveStore.Touch(ctx, id, u)
}

func (l faultyLiveStore) PutLease(ctx context.Context, x broker.LiveLease, limits broker.LeaseLimits, refill bool) error {
	if err := l.fault(); err != nil {
		return err
	}
	return l.LiveStore.PutLease(ctx, x, limits, refill)
}

func (l faultyLiveStore) EndLease(ctx context.Context, x broker.LiveLease, at time.Time) (bool, error) {
	if err := l.fault(); err != nil {
		return false, err
	}
	return l.LiveStore.EndLease(ctx, x, at)
}

func (l faultyLiveStore) Status(ctx context.Context, taskID, leaseID string, now time.Time) (bool, error) {
	if err := l.fault(); err != nil {
		return false, err
	}
	return l.LiveStore.Status(ctx, taskID, leaseID, now)
}

func (l faultyLiveStore) Follow(ctx context.Context, cursor string, limit int, wait time.Duration) ([]broker.Event, string, error) {
	if err := l.fault(); err != nil {
		return nil, "", err
	}
	return l.LiveStore.Follow(ctx, cursor, limit, wait)
}

func (l faultyLiveStore) Admit(ctx context.Context, a broker.Admission) (broker.Live, error) {
	if err := l.fault(); err != nil {
		return broker.Live{}, err
	}
	return l.LiveStore.Admit(ctx, a)
}

func (l faultyLiveStore) Put(ctx context.Context, key, value string, until time.Time) error {
	if err := l.fault(); err != nil {
		return err
	}
	return l.LiveStore.Put(ctx, key, value, until)
}

func (l faultyLiveStore) Take(ctx context.Context, key string) (string, error) {
	if err := l.fault(); err != nil {
		return "", err
	}
	return l.LiveStore.Take(ctx, key)
}

func (l faultyLiveStore) Pace(ctx context.Context, key string, now time.Time, p broker.Pacing, until time.Time) (time.Duration, bool, error) {
	if err := l.fault(); err != nil {
		return 0, false, err
	}
	return l.LiveStore.Pace(ctx, key, now, p, until)
}

func (l faultyLiveStore) Check(ctx context.Context) error {
	if err := l.fault(); err != nil {
		return err
	}
	return l.LiveStore.Check(ctx)
}

type faultyStore struct {
	broker.Store
	on *atomic.Bool
}

func (j faultyStore) Append(ctx context.Context, r broker.Record) error {
	if j.on.Load() {
		return errStore
	}
	return j.Store.Append(ctx, r)
}

func (j faultyStore) Begin(ctx context.Context, r broker.Record) (wait func() error) {
	if j.on.Load() {
		return func() error { return errStore }
	}
	return j.Store.Begin(ctx, r)
}

func (j faultyStore) Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]broker.Claimed, error) {
	if j.on.Load() {
		return nil, errStore
	}
	return j.Store.Take(ctx, provider, now, hold, n)
}

func (j faultyStore) RevocationBacklog(ctx context.Context, now time.Time) ([]broker.RevocationBacklog, error) {
	if j.on.Load() {
		return nil, errStore
	}
	return j.Store.RevocationBacklog(ctx, now)
}

func (j faultyStore) Held(ctx context.Context) (map[string]int, error) {
	if j.on.Load() {
		return nil, errStore
	}
	return j.Store.Held(ctx)
}

func (j faultyStore) Tasks(ctx context.Context, f broker.TaskFilter) ([]broker.Task, error) {
	if j.on.Load() {
		return nil, errStore
	}
	return j.Store.Tasks(ctx, f)
}

func (j faultyStore) Leases(ctx context.Context, f broker.LeaseFilter) ([]broker.Lease, error) {
	if j.on.Load() {
		return nil, errStore
	}
	return j.Store.Leases(ctx, f)
}

func (j faultyStore) Entries(ctx context.Context, f broker.EntryFilter) iter.Seq2[audit.Entry, error] {
	if j.on.Load() {
		return func(yield func(audit.Entry, error) bool) { yield(audit.Entry{}, errStore) }
	}
	return j.Store.Entries(ctx, f)
}

func (j faultyStore) Checkpoints(ctx context.Context) ([]audit.Checkpoint, error) {
	if j.on.Load() {
		return nil, errStore
	}
	return j.Store.Checkpoints(ctx)
}

type faultyApprovalStore struct {
	broker.ApprovalStore
	on *atomic.Bool
}

func (d faultyApprovalStore) Create(ctx context.Context, r broker.Request, room broker.Room, e audit.Entry) (broker.Request, bool, error) {
	if d.on.Load() {
		return broker.Request{}, false, errStore
	}
	return d.ApprovalStore.Create(ctx, r, room, e)
}

func (d faultyApprovalStore) Vote(ctx context.Context, v broker.Vote, until time.Time, entries ...audit.Entry) (broker.Request, error) {
	if d.on.Load() {
		return broker.Request{}, errStore
	}
	return d.ApprovalStore.Vote(ctx, v, until, entries...)
}

func (d faultyApprovalStore) Settle(ctx context.Context, id string, from, to broker.RequestState, at time.Time, r broker.Record) (broker.Request, error) {
	if d.on.Load() {
		return broker.Request{}, errStore
	}
	return d.ApprovalStore.Settle(ctx, id, from, to, at, r)
}

func (d faultyApprovalStore) Requests(ctx context.Context, f broker.RequestFilter) ([]broker.Request, error) {
	if d.on.Load() {
		return nil, errStore
	}
	return d.ApprovalStore.Requests(ctx, f)
}
