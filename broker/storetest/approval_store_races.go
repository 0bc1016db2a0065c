package storetest

import (
	"context"
	"fmt"

	"github.com/ebb-broker/ebb/broker"
)

func voteRace(t *storeTest) {
	second := t.another()
	for _, q := range []int{1, 3} {
		r := t.asked(needs(q))
		var approved [16]bool
		errs := race(16, func(i int) error {
			got, err := []broker.ApprovalStore{t.ApprovalStore, second.ApprovalStore}[i%2].Vote(context.WithoutCancel(t.Context()), yes(r, fmt.Sprint("p", i)), until, about(r)...)
			approved[i] = err == nil && got.State == broker.RequestApproved
			return err
		})
		t.same("votes", t.winners("vote", errs, broker.ErrDone), q)
		n := 0
		for _, a := range approved {
			if a {
				n++
			}
		}
		t.same("deciding votes", n, 1)
		t.same("stored votes", len(t.request(r.ID).Votes), q)
		t.same("entries", len(t.kinds(r.ID)), 1+q+1)
	}
	same := t.asked(needs(2))
	errs := race(16, func(i int) error {
		_, err := []broker.ApprovalStore{t.ApprovalStore, second.ApprovalStore}[i%2].Vote(context.WithoutCancel(t.Context()), yes(same, "bob"), until)
		return err
	})
	t.same("votes of one person", t.winners("vote", errs, broker.ErrExists), 1)
	t.same("state", t.request(same.ID).State, broker.RequestPending)
}

// An approval, a denial and the expiry race: the first one decides, and only one does.
func yesOrNo(t *storeTest) {
	for range 10 {
		r := t.asked(nil)
		errs := race(15, func(i int) error {
			var err error
			switch i % 3 {
			case 0:
				_, err = t.vote(yes(r, fmt.Sprint("p", i)), about(r)...)
			case 1:
				_, err = t.vote(no(r, fmt.Sprint("p", i)), about(r)...)
			default:
				_, err = t.ApprovalStore.Settle(context.WithoutCancel(t.Context()), r.ID, broker.RequestPending, broker.RequestExpired, r.ExpiresAt, broker.Record{})
			}
			return err
		})
		t.same("winners", t.winners("decide", errs, broker.ErrDone), 1)
	}
	t.verify()
}
