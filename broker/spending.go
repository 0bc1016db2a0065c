package broker

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// Spending is an amount that a request adds to a sum. The sums of a delegation tree are kept under
// the runner's task, so that tasks below it cannot spend more.
type Spending struct {
	TaskID string        // of the runner's task
	Holder string        // the name of a provider, or see OneUse
	Amount amount.Amount // more than 0
	Limit  int64         // of the sum, this amount included; see amount.Amount
}

// uses is the unit in which the uses for one content are counted.
const uses = "uses"

// OneUse returns the holder of the only use for one content. id is that of the approval; of the lease
// if no person approved it. Leases under one approval can be for several contents.
func OneUse(id, content string) string { return id + "/" + content }

// OneUse returns the holder of the only use of a lease for its content.
func (l Lease) OneUse() string { return OneUse(cmp.Or(l.RequestID, l.ID), l.Content) }

// readMethods are the methods of requests that change nothing by themselves: of HTTP (RFC 9110 section
// 9.2.1), and those of an Exchange for the start of a session and the end of a query.
var readMethods = []string{http.MethodGet, http.MethodHead, "", "CANCEL"}

// Spends returns the amounts that a request adds to sums of the runner's task root, with their limits.
// facts are those of its body; nil = the body was not read. A body that does nothing counts as a read.
// The error is a clause on how the limits of the lease exclude the request, without text from the
// sandbox.
func (u Usable) Spends(root string, facts *content.Facts, method string) ([]Spending, error) {
	reads := slices.Contains(readMethods, method)
	if facts != nil && facts.Idle() {
		facts, reads = nil, true
	}
	var out []Spending
	switch {
	case u.Lease.Content == "" || facts == nil && reads:
	case ContentSum(facts) != u.Lease.Content:
		return nil, errors.New("the approval of its lease is for another request than this")
	default:
		once := amount.One(uses)
		out = append(out, Spending{root, u.Lease.OneUse(), once, once.Value})
	}
	if u.Lease.MaxAmount == nil {
		return out, nil
	}
	var sum amount.Amount
	if facts != nil {
		var err error
		if sum, err = facts.Amount(); err != nil {
			return nil, err
		}
	}
	limit, is := u.Lease.MaxAmount.Of(sum.Unit)
	switch {
	case sum.Unit == "" && !reads:
		return nil, errors.New("its lease limits amounts, and ebb cannot read the amount of the request")
	case sum.Value == 0:
		return out, nil
	case !is:
		return nil, fmt.Errorf("its lease allows no amounts in %s, but %s", sum.Unit, u.Lease.MaxAmount)
	}
	return append(out, Spending{root, u.Provider, sum, limit}), nil
}

// Afford returns an error if a request would exceed a limit. It compares with u.Spent, so that a
// concurrent request can still use the rest. The error is a clause such as "its lease is for one
// request, which has been sent".
func (u Usable) Afford(all []Spending) error {
	for _, s := range all {
		var spent int64
		if i := slices.IndexFunc(u.Spent, func(had Spending) bool { return had.Holder == s.Holder && had.Amount.Unit == s.Amount.Unit }); i >= 0 {
			spent = u.Spent[i].Amount.Value
		}
		switch {
		case s.Limit-s.Amount.Value >= spent:
		case s.Holder == u.Lease.OneUse():
			return errors.New("its lease is for one request, which has been sent")
		default:
			unit := s.Amount.Unit
			return fmt.Errorf("it would spend %s, and of %s for this task %s are spent", s.Amount, amount.Amount{Unit: unit, Value: s.Limit}, amount.Amount{Unit: unit, Value: spent})
		}
	}
	return nil
}
