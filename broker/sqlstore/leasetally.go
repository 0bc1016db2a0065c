package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// LeaseTally implements broker.Listing.
func (l *leaseStore) LeaseTally(ctx context.Context, now time.Time) (broker.LeaseTally, error) {
	live, err1 := l.states(ctx, now, " WHERE l.expires_at > ? ORDER BY l.expires_at DESC", millis(now))
	pending, err2 := l.states(ctx, now, " WHERE l.state IN ('intent', 'revoking') ORDER BY l.id")
	over, err3 := l.states(ctx, now, " WHERE l.state = 'unconfirmed' ORDER BY l.id")
	recent, err4 := l.states(ctx, now, " ORDER BY l.id DESC")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return broker.LeaseTally{}, fmt.Errorf("lease tally: %w", l.engine.explain(err))
	}
	return broker.LeaseTally{
		Live: of(live, broker.LeaseLive), Intent: of(pending, broker.LeaseIntent), Revoking: of(pending, broker.LeaseRevoking), Unconfirmed: of(over, broker.LeaseUnconfirmed), Recent: recent,
	}, nil
}

func tallyText(which string) string {
	return "SELECT d, count(*) FROM (SELECT " + derived + " AS d FROM (SELECT l.id, l.task_id, l.state, l.expires_at FROM leases l" + which + " LIMIT " + strconv.Itoa(broker.TallyCap) + ") l " +
		"LEFT JOIN tasks t ON t.id = l.task_id LEFT JOIN upstream_leases u ON u.lease_id = l.id) x GROUP BY d"
}

// states counts the derived states of the leases selected by which, up to TallyCap
// leases.
func (l *leaseStore) states(ctx context.Context, now time.Time, which string, args ...any) (map[broker.LeaseState]int, error) {
	out := map[broker.LeaseState]int{}
	_, err := collect(ctx, l.engine.read(), tallyText(which), append([]any{millis(now)}, args...), func(row scan) (n int, err error) {
		var state broker.LeaseState
		err = row(&state, &n)
		out[state] = n
		return n, err
	})
	return out, err
}

// of returns the count of one state. More is set when the count stopped at TallyCap.
func of(states map[broker.LeaseState]int, state broker.LeaseState) broker.Count {
	all := 0
	for _, n := range states {
		all += n
	}
	return broker.Count{N: states[state], More: all >= broker.TallyCap}
}
