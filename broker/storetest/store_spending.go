package storetest

import (
	"context"
	"fmt"
	"math"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// spending: sums stay within their limits at all replicas together, and a unit over a limit writes
// nothing: neither another sum nor an entry.
func spending(t *storeTest) {
	second := t.another()
	side := func(i int) broker.Store { return []broker.Store{t.Store, second.Store}[i%2] }
	task := t.openTask()
	adds := func(holder, unit string, value, limit int64) broker.Spending {
		return broker.Spending{TaskID: task.ID, Holder: holder, Amount: amount.Amount{Unit: unit, Value: value}, Limit: limit}
	}
	spend := func(at broker.Store, all ...broker.Spending) error {
		return at.Append(context.WithoutCancel(t.Context()), broker.Record{Spend: all, Entries: []audit.Entry{Entry(audit.EgressAllowed, task.ID)}})
	}
	errs := race(32, func(i int) error { return spend(side(i), adds("shop", "EUR", 3, 20)) })
	t.same("winners", t.winners("spend", errs, broker.ErrCap), 6)
	t.want("the rest", spend(t.Store, adds("shop", "EUR", 2, 20)), nil)
	t.want("one more", spend(t.Store, adds("shop", "EUR", 1, 20)), broker.ErrCap)
	t.want("a higher limit", spend(t.Store, adds("shop", "EUR", 1, 21)), nil)
	t.want("a lower limit", spend(t.Store, adds("shop", "EUR", 1, 5)), broker.ErrCap)
	t.want("another unit", spend(t.Store, adds("shop", "USD", 20, 20)), nil)
	t.want("the first amount is too large", spend(t.Store, adds("bank", "EUR", 21, 20)), broker.ErrCap)
	t.want("two, of which the second is too large", spend(t.Store, adds("lse_1", "uses", 1, 1), adds("shop", "USD", 1, 20)), broker.ErrCap)
	t.want("the first of them alone", spend(t.Store, adds("lse_1", "uses", 1, 1)), nil)
	t.want("near the largest number", spend(t.Store, adds("big", "EUR", math.MaxInt64, math.MaxInt64)), nil)
	t.want("beyond it", spend(t.Store, adds("big", "EUR", 1, math.MaxInt64)), broker.ErrCap)
	t.same("entries", len(t.entries(broker.EntryFilter{Kind: audit.EgressAllowed})), 6+5)
	for _, wrong := range []broker.Spending{adds("", "EUR", 1, 1), adds("shop", "", 1, 1), adds("shop", "EUR", 0, 1), adds("shop", "EUR", -1, 1), {Holder: "shop", Amount: amount.One("EUR"), Limit: 1}} {
		if err := spend(t.Store, wrong); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
	got, err := second.Store.Spent(t.Context(), task.ID, "shop", "lse_1", "none")
	t.want("spent", err, nil)
	t.same("spent", fmt.Sprint(got), fmt.Sprint([]broker.Spending{adds("lse_1", "uses", 1, 0), adds("shop", "EUR", 21, 0), adds("shop", "USD", 20, 0)}))
	other := t.openTask()
	got, err = t.Store.Spent(t.Context(), other.ID, "shop")
	t.want("spent by another task", err, nil)
	t.same("spent by another task", len(got), 0)
}

// leaseLimits: the limits of a lease beside its scopes are read as they were written. Limits that
// allow nothing do not become none.
func leaseLimits(t *storeTest) {
	task := t.openTask()
	for _, text := range []string{"", "nothing", "EUR 5", "EUR 12.5, USD 60, mails 3"} {
		limits, err := amount.ParseLimits(text)
		t.want(text, err, nil)
		for _, l := range []broker.Lease{Lease(task.ID), Intent(task.ID)} {
			l.Content, l.MaxAmount = fmt.Sprintf("%064x", len(text)), limits
			l = t.issue(l)
			got, err := t.Store.Leases(t.Context(), broker.LeaseFilter{IDs: []string{l.ID}, Now: l.IssuedAt, Page: broker.Page{Limit: 1}})
			t.want("read", err, nil)
			t.same("limits", fmt.Sprintf("%q %q %t", got[0].Content, got[0].MaxAmount, got[0].MaxAmount == nil), fmt.Sprintf("%q %q %t", l.Content, text, text == ""))
		}
	}
}
