package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

func requestID(r broker.Request) string { return r.ID }

func (t *storeTest) requestIDs(f broker.RequestFilter) []string {
	t.Helper()
	got, err := t.ApprovalStore.Requests(t.Context(), f)
	return idsOf(t, err, got, requestID)
}

func requestFilters(t *storeTest) {
	minute := func(n int) time.Time { return Epoch.Add(time.Duration(n) * time.Minute) }
	var rs []broker.Request
	for i := range 6 {
		rs = append(rs, t.asked(func(r *broker.Request) {
			r.Owner, r.Groups = fmt.Sprint("owner", i%2), []string{fmt.Sprint("g", i%3), "g9", "g9"}
			r.Provider = fmt.Sprint("p", i%4)
			r.CreatedAt, r.ExpiresAt, r.TTL = minute(i), minute(10+i), 3600
		}))
	}
	pick := choose(idsOf(t, nil, rs, requestID))
	vote := func(v broker.Vote, until time.Time) {
		t.Helper()
		if _, err := t.ApprovalStore.Vote(t.Context(), v, until); err != nil {
			t.Fatal(err)
		}
	}
	v := yes(rs[0], "bob")
	v.At = minute(9)
	vote(v, minute(20))
	vote(yes(rs[1], "bob"), minute(30))
	if _, err := t.ApprovalStore.Settle(t.Context(), rs[1].ID, broker.RequestApproved, broker.RequestIssued, minute(4), broker.Record{}); err != nil {
		t.Fatal(err)
	}
	vote(no(rs[2], "bob"), time.Time{})
	for name, tt := range map[string]struct {
		f    broker.RequestFilter
		want []string
	}{
		"all":        {broker.RequestFilter{}, pick(0, 1, 2, 3, 4, 5)},
		"voted":      {broker.RequestFilter{State: broker.RequestPending, Voted: true}, nil},
		"ids":        {broker.RequestFilter{IDs: pick(5, 0)}, pick(0, 5)},
		"task":       {broker.RequestFilter{TaskID: rs[3].TaskID}, pick(3)},
		"owner":      {broker.RequestFilter{Owner: "owner1"}, pick(1, 3, 5)},
		"provider":   {broker.RequestFilter{Provider: "p1"}, pick(1, 5)},
		"pending":    {broker.RequestFilter{State: broker.RequestPending}, pick(3, 4, 5)},
		"open":       {broker.RequestFilter{Open: true}, pick(0, 3, 4, 5)},
		"group":      {broker.RequestFilter{Group: "g0"}, pick(0, 3)},
		"group of":   {broker.RequestFilter{Group: "g9", State: broker.RequestPending}, pick(3, 4, 5)},
		"no group":   {broker.RequestFilter{Group: "g"}, pick()},
		"grants":     {broker.RequestFilter{GrantLive: minute(19)}, pick(0, 1)},
		"grants end": {broker.RequestFilter{GrantLive: minute(20)}, pick(1)},
		"since":      {broker.RequestFilter{Since: minute(4)}, pick(0, 5)},
		"dedupe":     {broker.RequestFilter{Dedupe: rs[4].Dedupe}, pick(4)},
		"expired":    {broker.RequestFilter{ExpiredAt: minute(14)}, pick(3, 4)},
		"together":   {broker.RequestFilter{Owner: "owner0", Group: "g1", State: broker.RequestPending}, pick(4)},
	} {
		if got := t.requestIDs(tt.f); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	got, err := t.ApprovalStore.Requests(t.Context(), broker.RequestFilter{})
	if err != nil || len(got[0].Votes) != 1 || len(got[2].Votes) != 1 || len(got[3].Votes) != 0 || got[2].Votes[0].Code != broker.TooBroad {
		t.Errorf("votes are with other requests: %+v, %v", got, err)
	}
}

func requestPages(t *storeTest) {
	task := t.openTask()
	var ids []string
	for range 13 {
		r, _, err := t.create(Request(task.ID), 0)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	for _, desc := range []bool{false, true} {
		want := slices.Clone(ids)
		if desc {
			slices.Reverse(want)
		}
		var got []string
		f := broker.RequestFilter{TaskID: task.ID, Page: broker.Page{Limit: 5, Desc: desc}}
		for {
			page := t.requestIDs(f)
			got = append(got, page...)
			if len(page) < 5 {
				break
			}
			f.Page.After = page[4]
		}
		if !slices.Equal(got, want) {
			t.Errorf("desc %v: got %v, want %v", desc, got, want)
		}
	}
}
