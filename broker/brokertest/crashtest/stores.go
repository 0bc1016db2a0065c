package crashtest

import (
	"context"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// liveStore counts the writes of a mint and of a close to the LiveStore.
type liveStore struct {
	broker.LiveStore
	c *counter
}

func (l liveStore) Admit(ctx context.Context, a broker.Admission) (out broker.Live, err error) {
	l.c.step("live store: Admit", func() { out, err = l.LiveStore.Admit(ctx, a) })
	return out, err
}

func (l liveStore) PutTask(ctx context.Context, t broker.Live, keep time.Time) (err error) {
	l.c.step("live store: PutTask", func() { err = l.LiveStore.PutTask(ctx, t, keep) })
	return err
}

func (l liveStore) SetState(ctx context.Context, id string, s broker.TaskState, at, keep time.Time) (c broker.Counts, first bool, err error) {
	l.c.step("live store: SetState "+string(s), func() { c, first, err = l.LiveStore.SetState(ctx, id, s, at, keep) })
	return c, first, err
}

func (l liveStore) PutLease(ctx context.Context, x broker.LiveLease, limits broker.LeaseLimits, refill bool) (err error) {
	l.c.step("live store: PutLease", func() { err = l.LiveStore.PutLease(ctx, x, limits, refill) })
	return err
}

func (l liveStore) EndLease(ctx context.Context, x broker.LiveLease, at time.Time) (first bool, err error) {
	l.c.step("live store: EndLease", func() { first, err = l.LiveStore.EndLease(ctx, x, at) })
	return first, err
}

func (l liveStore) Status(ctx context.Context, task, lease string, now time.Time) (alive bool, err error) {
	l.c.step("live store: Status", func() { alive, err = l.LiveStore.Status(ctx, task, lease, now) })
	return alive, err
}

func (l liveStore) Mark(ctx context.Context) (err error) {
	l.c.step("live store: Mark", func() { err = l.LiveStore.Mark(ctx) })
	return err
}

// store counts every durable unit, and every claim of pending revocations.
type store struct {
	broker.Store
	c *counter
}

func (j store) Append(ctx context.Context, r broker.Record) (err error) {
	j.c.step("database: "+unit(r), func() { err = j.Store.Append(ctx, r) })
	return err
}

// Begin appends only when the caller waits for it: the caller's work in between comes
// before it.
func (j store) Begin(ctx context.Context, r broker.Record) (wait func() error) {
	return func() error { return j.Append(ctx, r) }
}

// unit names a unit by its parts and entries.
func unit(r broker.Record) string {
	var parts []string
	if r.IssueLease != nil {
		parts = append(parts, "lease "+string(r.IssueLease.State))
	}
	if r.SettleLease != nil {
		parts = append(parts, "lease "+string(r.SettleLease.State))
	}
	if r.MoveTask != nil {
		parts = append(parts, "task "+string(r.MoveTask.State))
	}
	for _, e := range r.Entries {
		parts = append(parts, e.Kind)
	}
	return strings.Join(parts, ", ")
}

// Take is a step only when it claimed a lease, because it is called constantly.
func (j store) Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]broker.Claimed, error) {
	out, err := j.Store.Take(ctx, provider, now, hold, n)
	if len(out) > 0 {
		j.c.step("database: Take", func() {})
	}
	return out, err
}
