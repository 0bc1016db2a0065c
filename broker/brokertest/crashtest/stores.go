package crashtest

import (
	"context"
	"strings"
	"time"

	"ebb/broker"
)

// ledger counts what a mint and an end do to the ledger.
type ledger struct {
	broker.Ledger
	c *counter
}

func (l ledger) Admit(ctx context.Context, a broker.Admission) (out broker.Live, err error) {
	l.c.step("ledger: Admit", func() { out, err = l.Ledger.Admit(ctx, a) })
	return out, err
}

func (l ledger) PutTask(ctx context.Context, t broker.Live, keep time.Time) (err error) {
	l.c.step("ledger: PutTask", func() { err = l.Ledger.PutTask(ctx, t, keep) })
	return err
}

func (l ledger) SetState(ctx context.Context, id string, s broker.TaskState, at, keep time.Time) (c broker.Counts, first bool, err error) {
	l.c.step("ledger: SetState "+string(s), func() { c, first, err = l.Ledger.SetState(ctx, id, s, at, keep) })
	return c, first, err
}

func (l ledger) PutLease(ctx context.Context, x broker.LiveLease, limits broker.LeaseLimits, refill bool) (err error) {
	l.c.step("ledger: PutLease", func() { err = l.Ledger.PutLease(ctx, x, limits, refill) })
	return err
}

func (l ledger) EndLease(ctx context.Context, x broker.LiveLease, at time.Time) (first bool, err error) {
	l.c.step("ledger: EndLease", func() { first, err = l.Ledger.EndLease(ctx, x, at) })
	return first, err
}

func (l ledger) Status(ctx context.Context, task, lease string, now time.Time) (alive bool, err error) {
	l.c.step("ledger: Status", func() { alive, err = l.Ledger.Status(ctx, task, lease, now) })
	return alive, err
}

func (l ledger) Mark(ctx context.Context) (err error) {
	l.c.step("ledger: Mark", func() { err = l.Ledger.Mark(ctx) })
	return err
}

// journal counts every durable unit, and every claim of what is owed.
type journal struct {
	broker.Journal
	c *counter
}

func (j journal) Append(ctx context.Context, r broker.Record) (err error) {
	j.c.step("journal: "+unit(r), func() { err = j.Journal.Append(ctx, r) })
	return err
}

// Begin is durable when somebody waits for it: what the caller does meanwhile comes
// before it.
func (j journal) Begin(ctx context.Context, r broker.Record) (wait func() error) {
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

// Take is a step when something was claimed; it is looked at all the time.
func (j journal) Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]broker.Claimed, error) {
	out, err := j.Journal.Take(ctx, provider, now, hold, n)
	if len(out) > 0 {
		j.c.step("journal: Take", func() {})
	}
	return out, err
}
