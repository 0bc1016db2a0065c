package kernel

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/broker"
)

// RefillPage and refillWidth shorten a refill: the next page is read while earlier entries are
// written, many at a time. A hundred thousand leases must not delay a restart.
const (
	RefillPage  = 1000
	refillWidth = 256
)

// each calls do for everything that read returns, page by page and in no order, and returns the
// number.
func each[T any](ctx context.Context, read func(context.Context, broker.Page) ([]T, error), id func(T) string, do func(T) error) (int, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(refillWidth)
	n := 0
	for page := (broker.Page{Limit: RefillPage}); ; {
		items, err := read(ctx, page)
		if err != nil {
			return n, errors.Join(err, g.Wait())
		}
		for _, it := range items {
			g.Go(func() error { return do(it) })
		}
		n += len(items)
		if len(items) < RefillPage {
			return n, g.Wait()
		}
		page.After = id(items[len(items)-1])
	}
}

// EachTask calls do for each task that f finds in j, and returns their number.
func EachTask(ctx context.Context, j broker.Store, f broker.TaskFilter, do func(broker.Task) error) (int, error) {
	return each(ctx, func(ctx context.Context, p broker.Page) ([]broker.Task, error) {
		f.Page = p
		return j.Tasks(ctx, f)
	}, func(t broker.Task) string { return t.ID }, do)
}

// EachLease calls do for each lease that f finds in j at the time f.Now, and returns their
// number.
func EachLease(ctx context.Context, j broker.Store, f broker.LeaseFilter, do func(broker.Lease) error) (int, error) {
	return each(ctx, func(ctx context.Context, p broker.Page) ([]broker.Lease, error) {
		f.Page = p
		return j.Leases(ctx, f)
	}, func(l broker.Lease) string { return l.ID }, do)
}

// SightOf returns the limits of the requests that a person may see; nil = all.
func SightOf(who broker.Principal) *broker.Sight {
	if who.Has(broker.RoleAuditor, broker.RoleOperator, broker.RoleViewer) {
		return nil
	}
	s := &broker.Sight{Runner: who.ID}
	if who.Has(broker.RoleApprover) {
		s.Groups = who.Groups
	}
	return s
}

// HasAnswered reports whether the person has voted, under any of their names.
func HasAnswered(who broker.Principal, r broker.Request) bool {
	return slices.ContainsFunc(r.Votes, func(v broker.Vote) bool { return v.SamePerson(broker.Vote{By: who.ID, Also: who.Also}) })
}

// ShownVotes hides earlier votes from an approver who has not voted yet. An auditor who is also
// an approver sees them only if they may not decide the request. A viewer sees votes only after
// the request is decided.
func ShownVotes(who broker.Principal, r broker.Request) []broker.Vote {
	looks := who.Has(broker.RoleViewer) && !who.Has(broker.RoleAuditor, broker.RoleOperator)
	if r.State != broker.RequestPending || !looks && (!who.Has(broker.RoleApprover) || who.Has(broker.RoleAuditor) && broker.MayDecide(who, r) != nil) {
		return r.Votes
	}
	if HasAnswered(who, r) {
		return r.Votes
	}
	return nil
}
