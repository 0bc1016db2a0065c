package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

func yes(r broker.Request, by string) broker.Vote {
	return broker.Vote{RequestID: r.ID, By: by, Groups: []string{"approvers"}, Approve: true, Digest: r.Digest, At: Epoch.Add(2 * time.Minute)}
}

// needs requires n approvers.
func needs(n int) func(*broker.Request) {
	return func(r *broker.Request) {
		r.Quorum = n
		r.Rules = []policy.AskRule{{ID: "ask", Groups: r.Groups, Quorum: n}}
	}
}

func no(r broker.Request, by string) broker.Vote {
	v := yes(r, by)
	v.Approve, v.Digest, v.Code, v.Note = false, "", broker.TooBroad, "Ask for less. \U0001f30a"
	return v
}

var until = Epoch.Add(time.Hour)

// about returns the entries of a vote for every possible decision.
func about(r broker.Request) []audit.Entry {
	out := make([]audit.Entry, 3)
	for i, k := range []string{audit.RequestVoted, audit.RequestApproved, audit.RequestDenied} {
		out[i] = Entry(k, r.TaskID)
		out[i].RequestID = r.ID
	}
	return out
}

func (t *approvalTest) vote(v broker.Vote, entries ...audit.Entry) (broker.Request, error) {
	return t.ApprovalStore.Vote(context.WithoutCancel(t.Context()), v, until, entries...)
}

func approve(t *approvalTest) {
	r := t.asked(nil)
	v := yes(r, "bob")
	v.TTL, v.Note = 60, "as asked, but shorter"
	got, err := t.vote(v, about(r)...)
	t.want("vote", err, nil)
	r.State, r.Votes, r.DecidedAt, r.Granted, r.GrantedTTL, r.GrantUntil, r.Note = broker.RequestApproved, []broker.Vote{v}, v.At, r.Scopes, 60, v.At.Add(time.Minute), v.Note
	t.same("approved", got, r)
	t.same("stored", t.request(r.ID), r)
	t.same("entries", t.kinds(r.ID), []string{audit.RequestCreated, audit.RequestVoted, audit.RequestApproved})
	_, err = t.vote(yes(r, "eve"))
	t.want("a vote after the decision", err, broker.ErrDone)

	longer := t.asked(nil)
	v = yes(longer, "bob")
	v.TTL = longer.TTL * 2
	if got, err := t.vote(v); err != nil || got.GrantedTTL != longer.TTL {
		t.Errorf("a longer lifetime was granted: %v, %v", got.GrantedTTL, err)
	}
}

func deny(t *approvalTest) {
	for _, digest := range []string{"", "0123abcd"} {
		r := t.asked(needs(2))
		v := no(r, "bob")
		v.Digest = digest
		got, err := t.vote(v, about(r)...)
		t.want("vote", err, nil)
		r.State, r.Votes, r.DecidedAt, r.Code, r.Note = broker.RequestDenied, []broker.Vote{v}, v.At, v.Code, v.Note
		t.same("denied", got, r)
		t.same("stored", t.request(r.ID), r)
		t.same("entries", t.kinds(r.ID), []string{audit.RequestCreated, audit.RequestVoted, audit.RequestDenied})
	}
}

func voteRefuses(t *approvalTest) {
	r := t.asked(needs(3))
	bob := yes(r, "bob")
	bob.Also = []string{"bob@example.com"}
	_, err := t.vote(bob)
	t.want("first vote", err, nil)
	before := t.request(r.ID)
	for name, tt := range map[string]struct {
		spoil func(*broker.Vote)
		want  error
	}{
		"unknown":     {func(v *broker.Vote) { v.RequestID = "req_none" }, broker.ErrNotFound},
		"digest":      {func(v *broker.Vote) { v.Digest = "other" }, broker.ErrStale},
		"no digest":   {func(v *broker.Vote) { v.Digest = "" }, broker.ErrStale},
		"no, digest":  {func(v *broker.Vote) { v.Approve, v.Digest = false, "other" }, broker.ErrStale},
		"again":       {func(v *broker.Vote) { v.By = "bob" }, broker.ErrExists},
		"his mail":    {func(v *broker.Vote) { v.By = "Bob@Example.com" }, broker.ErrExists},
		"also bob":    {func(v *broker.Vote) { v.By, v.Also = "sso:7", []string{"7", "BOB"} }, broker.ErrExists},
		"same mail":   {func(v *broker.Vote) { v.By, v.Also = "sso:7", []string{"bob@example.com"} }, broker.ErrExists},
		"no, again":   {func(v *broker.Vote) { v.By, v.Approve = "bob", false }, broker.ErrExists},
		"expired":     {func(v *broker.Vote) { v.At = r.ExpiresAt }, broker.ErrDone},
		"no, expired": {func(v *broker.Vote) { v.At, v.Approve = r.ExpiresAt, false }, broker.ErrDone},
	} {
		v := yes(r, "eve")
		tt.spoil(&v)
		if _, err := t.vote(v, about(r)...); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	for name, spoil := range map[string]func(*broker.Vote){
		"nobody": func(v *broker.Vote) { v.By = "" }, "no time": func(v *broker.Vote) { v.At = time.Time{} }, "NUL": func(v *broker.Vote) { v.Note = "\x00" },
	} {
		v := yes(r, "eve")
		spoil(&v)
		if _, err := t.vote(v); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := t.ApprovalStore.Vote(t.Context(), yes(r, "eve"), time.Time{}); err == nil {
		t.Error("a grant without an end")
	}
	t.same("unchanged", t.request(r.ID), before)
	t.same("entries", t.kinds(r.ID), []string{audit.RequestCreated})
}

func quorum(t *approvalTest) {
	r := t.asked(needs(2))
	first := yes(r, "bob")
	first.TTL = 120
	got, err := t.vote(first, about(r)...)
	t.want("first", err, nil)
	r.Votes = []broker.Vote{first}
	t.same("still pending", got, r)
	t.same("entries", t.kinds(r.ID), []string{audit.RequestCreated, audit.RequestVoted})
	second := yes(r, "eve")
	second.TTL, second.At = 300, Epoch.Add(3*time.Minute)
	got, err = t.vote(second, about(r)...)
	t.want("second", err, nil)
	r.State, r.Votes, r.DecidedAt, r.Granted, r.GrantedTTL, r.GrantUntil = broker.RequestApproved, []broker.Vote{first, second}, second.At, r.Scopes, 120, second.At.Add(2*time.Minute) // before until
	t.same("approved", got, r)
	t.same("stored", t.request(r.ID), r)

	// Members of one group cannot approve for another group's rule.
	both := t.asked(func(r *broker.Request) {
		r.Rules = []policy.AskRule{{ID: "a", Groups: []string{"approvers"}, Quorum: 1}, {ID: "b", Groups: []string{"owners"}, Quorum: 1}}
	})
	for _, by := range []string{"bob", "eve"} {
		if got, err = t.vote(yes(both, by)); err != nil || got.State != broker.RequestPending {
			t.Fatalf("got %s, %v; want pending until an owner agrees", got.State, err)
		}
	}
	owner := yes(both, "olga")
	owner.Groups = []string{"owners"}
	if got, err = t.vote(owner); err != nil || got.State != broker.RequestApproved {
		t.Errorf("got %s, %v; want approved", got.State, err)
	}

	denied := t.asked(needs(2))
	_, err = t.vote(yes(denied, "bob"))
	t.want("yes", err, nil)
	got, err = t.vote(no(denied, "eve"))
	if err != nil || got.State != broker.RequestDenied || !got.Granted.Empty() || !got.GrantUntil.IsZero() {
		t.Errorf("got %+v, %v; want denied by one no", got, err)
	}
}

// The granted scope is the scope to which all approvers agreed.
func narrower(t *approvalTest) {
	ask := func() broker.Request {
		return t.asked(func(r *broker.Request) {
			needs(2)(r)
			r.Scopes = scopes.MustParseSet("orders:eu/**:read orders:eu/1:write")
		})
	}
	by := func(r broker.Request, who, scope string) broker.Vote {
		v := yes(r, who)
		v.Scopes = scopes.MustParseSet(scope)
		return v
	}
	r := ask()
	_, err := t.vote(by(r, "bob", "orders:eu/*:read orders:eu/1:write"))
	t.want("first", err, nil)
	got, err := t.vote(by(r, "eve", "orders:eu/**:read"))
	t.want("second", err, nil)
	t.same("granted", got.Granted, scopes.MustParseSet("orders:eu/*:read"))
	t.same("stored", t.request(r.ID).Granted, got.Granted)

	wider := ask()
	_, err = t.vote(by(wider, "bob", "orders:**:read mail:**:*"))
	t.want("first", err, nil)
	got, err = t.vote(yes(wider, "eve"))
	t.want("second", err, nil)
	t.same("never wider than asked", got.Granted, scopes.MustParseSet("orders:eu/**:read"))

	apart := ask()
	if _, err := t.vote(by(apart, "mal", "mail:**:read"), about(apart)...); err == nil {
		t.Error("approved something else than was asked")
	}
	_, err = t.vote(by(apart, "bob", "orders:eu/1:write"))
	t.want("first", err, nil)
	_, err = t.vote(by(apart, "eve", "orders:eu/2:read"), about(apart)...)
	if be, ok := errors.AsType[*broker.Error](err); !ok || be.Kind != broker.InvalidScope {
		t.Errorf("nothing in common: got %v, want %s", err, broker.InvalidScope)
	}
	t.same("no vote and no entry", len(t.request(apart.ID).Votes)+len(t.kinds(apart.ID)), 2)
	got, err = t.vote(yes(apart, "eve")) // the same person may vote differently
	t.want("second", err, nil)
	t.same("granted", got.Granted, scopes.MustParseSet("orders:eu/1:write"))
}

func voteRace(t *approvalTest) {
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
func yesOrNo(t *approvalTest) {
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
