package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

func (t *approvalTest) waitingIDs(f broker.WaitFilter) []string {
	t.Helper()
	got, err := t.ApprovalStore.Waiting(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range got.Places {
		ids = append(ids, p.ID)
	}
	return ids
}

// marked: Marks returns the summaries of pending requests for notification, and no more
// data than that.
func marked(t *approvalTest) {
	at := func(n int) time.Time { return Epoch.Add(time.Duration(n) * time.Minute) }
	var rs []broker.Request
	for i, ends := range []int{5, 20, 30} {
		rs = append(rs, t.asked(func(r *broker.Request) {
			r.ExpiresAt, r.Owner, r.Runner, r.Groups = at(ends), "ann", "ci", []string{"g0", "g" + string(rune('1'+i))}
		}))
	}
	for _, tt := range []struct{ now, n, from, to int }{{4, 1000, 0, 3}, {10, 1000, 1, 3}, {10, 1, 2, 3}, {40, 5, 3, 3}} {
		got, err := t.ApprovalStore.NewestWaiting(t.Context(), at(tt.now), nil, tt.n)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, r := range slices.Backward(rs[tt.from:tt.to]) {
			want = append(want, r.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("at %d, %d of them: %v, want %v", tt.now, tt.n, got, want)
		}
	}
	newest, err := t.ApprovalStore.NewestWaiting(t.Context(), at(4), []string{rs[0].TaskID, rs[2].TaskID}, 1000)
	if err != nil || !slices.Equal(newest, []string{rs[1].ID}) {
		t.Errorf("without two tasks: %v, %v", newest, err)
	}
	for _, n := range []int{-1, 0, 1001} {
		if _, err := t.ApprovalStore.NewestWaiting(t.Context(), at(0), nil, n); err == nil {
			t.Errorf("%d of them were returned", n)
		}
	}
	if _, err := t.vote(no(rs[2], "zoe")); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]broker.RequestFilter{"all": {}, "ids": {IDs: []string{rs[1].ID, rs[2].ID}}, "group": {Sight: &broker.Sight{Groups: []string{"g2"}}}, "tree": {Tree: rs[0].TaskID}} {
		f.Page = broker.Page{Desc: true, Limit: 1000}
		got, err1 := t.ApprovalStore.Marks(t.Context(), f)
		want, err2 := t.ApprovalStore.Requests(t.Context(), f)
		if err1 != nil || err2 != nil || len(want) == 0 || !slices.EqualFunc(got, want, func(m broker.Mark, r broker.Request) bool {
			return m.ID == r.ID && m.Owner == r.Owner && m.Runner == r.Runner && m.Scopes.Equal(r.Scopes) && slices.Equal(m.Groups, r.Groups) &&
				slices.Equal(slices.Sorted(slices.Values(m.Voters)), voters(r)) && m.State == r.State && m.CreatedAt.Equal(r.CreatedAt) && m.ExpiresAt.Equal(r.ExpiresAt)
		}) {
			t.Errorf("%s: %+v, %v, want those of %d requests", name, got, err1, len(want))
		}
	}
}

// voters returns the people who voted on a request, sorted.
func voters(r broker.Request) (out []string) {
	for _, v := range r.Votes {
		out = append(out, v.By)
	}
	slices.Sort(out)
	return out
}

// waiting: the pending requests in the order of the queue, limited by the filter.
func waiting(t *approvalTest) {
	at := func(n int) time.Time { return Epoch.Add(time.Duration(n) * time.Minute) }
	add := func(rank, ends int, owner, runner, provider, group string) broker.Request {
		return t.asked(func(r *broker.Request) {
			r.Rank, r.ExpiresAt, r.Owner, r.Runner, r.Provider, r.Groups = rank, at(ends), owner, runner, provider, []string{group, "g9", "g9"}
		})
	}
	rs := []broker.Request{
		add(1, 20, "ann", "ci", "orders", "g0"),
		add(3, 30, "bob", "ci", "orders", "g1"),
		add(3, 25, "a%_b", "ci-2", "mail", "g0"),
		add(2, 10, "ann", "ci", "mail", "g0"),
		add(3, 5, "ann", "ci", "mail", "g0"),
	}
	pick := choose(idsOf(t.storeTest, nil, rs, requestID))
	for name, tt := range map[string]struct {
		f    broker.WaitFilter
		want []string
	}{
		"all":        {broker.WaitFilter{}, pick(2, 1, 3, 0)}, // the last one has expired
		"earlier":    {broker.WaitFilter{Now: at(4)}, pick(4, 2, 1, 3, 0)},
		"group":      {broker.WaitFilter{Sight: &broker.Sight{Groups: []string{"g0"}}}, pick(2, 3, 0)},
		"two groups": {broker.WaitFilter{Sight: &broker.Sight{Groups: []string{"g0", "g9"}}}, pick(2, 1, 3, 0)},
		"runner":     {broker.WaitFilter{Sight: &broker.Sight{Runner: "ci-2"}}, pick(2)},
		"nobody":     {broker.WaitFilter{Sight: &broker.Sight{}}, nil},
		"not own":    {broker.WaitFilter{NotOf: []string{"nobody", "ANN"}}, pick(2, 1)},
		"not run":    {broker.WaitFilter{NotOf: []string{"Ci-2"}}, pick(1, 3, 0)},
		"rank":       {broker.WaitFilter{Rank: 3}, pick(2, 1)},
		"provider":   {broker.WaitFilter{Provider: "mail"}, pick(2, 3)},
		"task":       {broker.WaitFilter{TaskID: rs[3].TaskID}, pick(3)},
		"scope":      {broker.WaitFilter{Text: "EU/2:Wri"}, pick(2, 1, 3, 0)},
		"owner":      {broker.WaitFilter{Text: "%_"}, pick(2)},
		"no text":    {broker.WaitFilter{Text: "\\"}, nil},
		"after":      {broker.WaitFilter{After: rs[1].Place()}, pick(3, 0)},
		"limit":      {broker.WaitFilter{Limit: 1}, pick(2)},
		"without":    {broker.WaitFilter{Without: []string{rs[2].TaskID, "' OR 1=1 --"}}, pick(1, 3, 0)},
	} {
		if tt.f.Now.IsZero() {
			tt.f.Now = at(5)
		}
		if got := t.waitingIDs(tt.f); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	slice, err := t.ApprovalStore.Waiting(t.Context(), broker.WaitFilter{Now: at(5), Text: "ann", Limit: 3})
	if err != nil || slice.Looked != 3 || slice.Stop.ID != rs[3].ID || len(slice.Places) != 1 || slice.Places[0].ID != rs[3].ID {
		t.Errorf("of the first three: %+v, %v", slice, err)
	}
	slice, err = t.ApprovalStore.Waiting(t.Context(), broker.WaitFilter{Now: at(5), Text: "ann", Limit: 3, After: slice.Stop})
	if err != nil || slice.Looked != 1 || slice.Stop.ID != "" || len(slice.Places) != 1 || slice.Places[0].ID != rs[0].ID {
		t.Errorf("of the others: %+v, %v", slice, err)
	}
	got, err := t.ApprovalStore.CountWaiting(t.Context(), broker.WaitFilter{Now: at(5), Sight: &broker.Sight{Groups: []string{"g9"}}})
	if want := map[int]int{1: 1, 2: 1, 3: 2}; err != nil || !maps.Equal(got, want) {
		t.Errorf("counted %v, %v, want %v", got, err, want)
	}
	both := t.asked(func(r *broker.Request) {
		r.Rank, r.ExpiresAt, r.Groups = 2, at(15), []string{"g7"}
		needs(2)(r)
	})
	if _, err := t.vote(yes(both, "zoe")); err != nil {
		t.Fatal(err)
	}
	for voter, want := range map[string][]string{"": {both.ID}, "zoe": nil, "tom": {both.ID}} {
		if got := t.waitingIDs(broker.WaitFilter{Now: at(5), Sight: &broker.Sight{Groups: []string{"g7"}}, NotBy: voter}); !slices.Equal(got, want) {
			t.Errorf("without those that %q has voted on: %v, want %v", voter, got, want)
		}
	}
	if _, err := t.vote(no(both, "tom")); err != nil {
		t.Fatal(err)
	}
	if _, err := t.vote(no(rs[2], "zoe")); err != nil {
		t.Fatal(err)
	}
	if got := t.waitingIDs(broker.WaitFilter{Now: at(5)}); !slices.Equal(got, pick(1, 3, 0)) {
		t.Errorf("after a decision: %v", got)
	}
	for _, f := range []broker.WaitFilter{{}, {Now: at(5), Limit: 1001}, {Now: at(5), Limit: -1}} {
		if _, err := t.ApprovalStore.Waiting(t.Context(), f); err == nil {
			t.Errorf("%+v was answered", f)
		}
	}
}

// waitingPages: every request is listed once, although others are added between the pages
// and many expire at the same time.
func waitingPages(t *approvalTest) {
	task := t.openTask()
	add := func(rank int) string {
		r := Request(task.ID)
		r.Rank = rank
		out, _, err := t.create(r, 0)
		if err != nil {
			t.Fatal(err)
		}
		return out.ID
	}
	var want []string
	for rank := 3; rank > 0; rank-- {
		var ids []string
		for range 5 {
			ids = append(ids, add(rank))
		}
		slices.Sort(ids)
		want = append(want, ids...)
	}
	f := broker.WaitFilter{Now: Epoch, TaskID: task.ID, Limit: 4}
	var got []string
	for {
		page, err := t.ApprovalStore.Waiting(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.Places {
			got = append(got, p.ID)
		}
		if page.Stop.ID == "" {
			break
		}
		f.After = page.Stop
		add(4)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// seen: the evidence shown to an approver is stored unchanged, and read only on request.
func seen(t *approvalTest) {
	r := t.asked(nil)
	v := yes(r, "bob")
	v.Proof = `{"key":"x"}`
	v.Snapshot = `{"text":"` + strings.Repeat("é\u202e", 1000) + `"}`
	if _, err := t.vote(v); err != nil {
		t.Fatal(err)
	}
	if got := t.request(r.ID); got.Votes[0].Snapshot != "" || got.Votes[0].Proof != "" {
		t.Errorf("read without being asked for: %d bytes", len(got.Votes[0].Snapshot))
	}
	got, err := t.ApprovalStore.Requests(t.Context(), broker.RequestFilter{IDs: []string{r.ID}, Snapshots: true})
	if err != nil || len(got) != 1 || got[0].Votes[0].Snapshot != v.Snapshot || got[0].Votes[0].Proof != v.Proof {
		t.Errorf("not as it was: %+v, %v", got, err)
	}
}

func requestID(r broker.Request) string { return r.ID }

func (t *approvalTest) requestIDs(f broker.RequestFilter) []string {
	t.Helper()
	got, err := t.ApprovalStore.Requests(t.Context(), f)
	return idsOf(t.storeTest, err, got, requestID)
}

func requestFilters(t *approvalTest) {
	minute := func(n int) time.Time { return Epoch.Add(time.Duration(n) * time.Minute) }
	var rs []broker.Request
	for i := range 6 {
		rs = append(rs, t.asked(func(r *broker.Request) {
			r.Owner, r.Groups = fmt.Sprint("owner", i%2), []string{fmt.Sprint("g", i%3), "g9", "g9"}
			r.Provider = fmt.Sprint("p", i%4)
			r.CreatedAt, r.ExpiresAt, r.TTL = minute(i), minute(10+i), 3600
		}))
	}
	pick := choose(idsOf(t.storeTest, nil, rs, requestID))
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

func requestPages(t *approvalTest) {
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
