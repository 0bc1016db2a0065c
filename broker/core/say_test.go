package core_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

func sets(texts ...string) (out []scopes.Set) {
	for _, t := range texts {
		out = append(out, scopes.MustParseSet(t))
	}
	return out
}

// TestSay: all requests within the limits of one group.
//
//ebb:invariant I7 The limit of an approver's group must cover the whole request, and limits of several groups are not combined
//ebb:invariant I7 A limit on a person's approver role takes precedence over the limits of their groups
func TestSay(t *testing.T) {
	t.Parallel()
	within := func(pairs ...string) map[string]scopes.Set {
		m := map[string]scopes.Set{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = scopes.MustParseSet(pairs[i+1])
		}
		return m
	}
	pay, git := "stripe:**:*", "github:acme/*:read"
	for name, c := range map[string]struct {
		who  broker.Principal
		set  string
		want []string
	}{
		"no limit":                    {broker.Principal{Groups: []string{"a", "b"}}, "stripe:x:write", []string{"a", "b"}},
		"within":                      {broker.Principal{Groups: []string{"a"}, Bounds: sets(pay), Within: within("a", pay)}, "stripe:x:write stripe:y/z:read", []string{"a"}},
		"beyond":                      {broker.Principal{Groups: []string{"a"}, Bounds: sets(pay), Within: within("a", pay)}, "github:acme/web:read", nil},
		"in part":                     {broker.Principal{Groups: []string{"a"}, Bounds: sets(git), Within: within("a", git)}, "github:acme/web:read github:acme/web:write", nil},
		"wider than the pattern":      {broker.Principal{Groups: []string{"a"}, Bounds: sets(git), Within: within("a", git)}, "github:acme/**:read", nil},
		"any action":                  {broker.Principal{Groups: []string{"a"}, Bounds: sets(git), Within: within("a", git)}, "github:acme/web:*", nil},
		"two halves":                  {broker.Principal{Groups: []string{"a", "b"}, Bounds: sets(pay, git), Within: within("a", pay, "b", git)}, "github:acme/web:read stripe:x:write", nil},
		"one of two":                  {broker.Principal{Groups: []string{"a", "b"}, Bounds: sets(pay, git), Within: within("a", pay, "b", git)}, "stripe:x:write", []string{"a"}},
		"another group has no limit":  {broker.Principal{Groups: []string{"a", "b"}, Within: within("a", pay)}, "github:x:write", []string{"b"}},
		"a part of one with a limit":  {broker.Principal{Groups: []string{"a", "b"}, Within: within("a", pay)}, "stripe:x:write github:x:write", []string{"b"}},
		"a group that gives no role":  {broker.Principal{Groups: []string{"a", "c"}, Bounds: sets(pay), Within: within("a", pay)}, "github:x:write", nil},
		"such a group, within bounds": {broker.Principal{Groups: []string{"a", "c"}, Bounds: sets(pay), Within: within("a", pay)}, "stripe:x:write", []string{"a", "c"}},
		"of a principal":              {broker.Principal{Groups: []string{"a"}, Bounds: sets(git)}, "github:acme/web:read", []string{"a"}},
		"of a principal, beyond":      {broker.Principal{Groups: []string{"a"}, Bounds: sets(git)}, "github:acme/web/x:read", nil},
	} {
		if got := c.who.Say(scopes.MustParseSet(c.set)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestAssign: groups of any name give roles and limits, and replace all roles that the person had
// before.
func TestAssign(t *testing.T) {
	t.Parallel()
	odd := "a\"; DROP TABLE, ü %_ [group]"
	m := broker.RoleGroups{
		broker.RoleViewer: {{Group: "all"}}, broker.RoleAuditor: {{Group: odd}},
		broker.RoleApprover: {{Group: "free"}, {Group: odd, Scopes: sets("stripe:**:*")[0]}, {Group: "git", Scopes: sets("github:**:*")[0]}},
	}
	for name, c := range map[string]struct {
		groups []string
		roles  []broker.Role
		bounds int
		within int
	}{
		"nobody":            {[]string{"others", "ALL", "free ", ""}, nil, 0, 0},
		"viewer":            {[]string{"all"}, []broker.Role{broker.RoleViewer}, 0, 0},
		"odd":               {[]string{odd}, []broker.Role{broker.RoleApprover, broker.RoleAuditor}, 1, 1},
		"two limits":        {[]string{odd, "git"}, []broker.Role{broker.RoleApprover, broker.RoleAuditor}, 2, 2},
		"one without limit": {[]string{"git", "free"}, []broker.Role{broker.RoleApprover}, 0, 1},
	} {
		before := broker.Principal{ID: "p", Groups: c.groups, Roles: []broker.Role{broker.RoleOperator}, Bounds: sets("x:**:*"), Within: map[string]scopes.Set{"free": sets("x:**:*")[0]}}
		p := m.Assign(before)
		if !slices.Equal(p.Roles, c.roles) || len(p.Bounds) != c.bounds || len(p.Within) != c.within || p.ID != "p" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// limited are approvers of group approvers for a part of its requests.
func limited() []broker.Principal {
	approver := []broker.Role{broker.RoleApprover}
	return []broker.Principal{
		{ID: "one", Roles: approver, Groups: []string{"approvers"}, Within: map[string]scopes.Set{"approvers": sets("orders:eu/1:write")[0]}, Bounds: sets("orders:eu/1:write")},
		{ID: "bounded", Roles: approver, Groups: []string{"approvers"}, Bounds: sets("orders:eu/*:write")},
	}
}

// TestLimitedApprover: a person who may decide a part cannot decide the whole, on any path.
//
//ebb:invariant I7 An approver whose limits do not cover all scopes of a request cannot decide any part of it
//ebb:invariant I7 A limit on a person's approver role takes precedence over the limits of their groups
func TestLimitedApprover(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{People: limited()})
	both := waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/1:write orders:eu/2:write")
	mine := waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/1:write")
	wide := waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/1:*")
	one, bounded, ctx := x.Principals["one"], x.Principals["bounded"], t.Context()
	for name, v := range map[string]broker.Verdict{
		"yes": {Approve: true, Digest: both.Digest, Target: both.Target(), Present: true}, "a smaller yes": {Approve: true, Digest: both.Digest, Scopes: sets("orders:eu/1:write")[0]}, "no": {Code: broker.NotNeeded},
		"suspicious": {Code: broker.Suspicious},
	} {
		if _, err := x.Broker.Decide(ctx, one, both.ID, v); broker.AsError(err).Kind != broker.Forbidden {
			t.Errorf("%s to more than the limit: %v", name, err)
		}
		v.Digest = wide.Digest
		if _, err := x.Broker.Decide(ctx, bounded, wide.ID, v); broker.AsError(err).Kind != broker.Forbidden {
			t.Errorf("%s to any action: %v", name, err)
		}
	}
	// Only requests within their limits wait for them; they may view the rest.
	for who, want := range map[*broker.Principal]int{&one: 1, &bounded: 2} {
		rs, err := x.Broker.Waiting(ctx, *who, true, broker.WaitFilter{})
		n, marks := 0, 0
		for _, k := range rs.Counts {
			n += k
		}
		ms, merr := x.Broker.Marks(ctx)
		for _, m := range ms {
			if m.For(*who) {
				marks++
			}
		}
		all, aerr := x.Broker.Waiting(ctx, *who, false, broker.WaitFilter{})
		if err != nil || merr != nil || aerr != nil || len(rs.Requests) != want || n != want || marks != want || len(all.Requests) != 3 {
			t.Errorf("%s: %d rows, %d counted, %d marks, %d in all, want %d; %v", who.ID, len(rs.Requests), n, marks, len(all.Requests), want, err)
		}
	}
	out, err := x.Broker.Decide(ctx, one, mine.ID, broker.Verdict{Approve: true, Digest: mine.Digest, Target: mine.Target(), Present: true})
	if err != nil || out.State != broker.RequestApproved || !slices.Equal(out.Votes[0].Groups, []string{"approvers"}) {
		t.Errorf("%+v, %v", out.State, err)
	}
	if out, err := x.Broker.Decide(ctx, bounded, both.ID, broker.Verdict{Approve: true, Digest: both.Digest, Target: both.Target(), Present: true}); err != nil || out.State != broker.RequestApproved {
		t.Errorf("%+v, %v", out.State, err)
	}
}

// TestLimitedQuorum: an approval counts for the groups under which it was given, and for no other
// groups of the person.
//
//ebb:invariant I7 An approval counts only for the groups through which the approver was eligible to give it
func TestLimitedQuorum(t *testing.T) {
	t.Parallel()
	approver := []broker.Role{broker.RoleApprover}
	inPay := func(id, other, limit string) broker.Principal {
		return broker.Principal{ID: id, Roles: approver, Groups: []string{"pay", other}, Within: map[string]scopes.Set{other: sets(limit)[0]}}
	}
	people := []broker.Principal{inPay("a", "safety", "orders:us/**:*"), inPay("b", "safety", "orders:eu/**:*"), inPay("c", "safety", "orders:eu/1:read")}
	x := brokertest.New(t, brokertest.Config{People: people, Policies: map[string][]byte{"p.cedar": []byte(`
@id("pay") @ask("pay") @quorum("2")
permit(principal, action, resource);`)}})
	r := waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/1:write")
	// Two rules: two people of pay, and one of safety who may decide this there.
	r.Rules = append(r.Rules, policy.AskRule{ID: "safety", Groups: []string{"safety"}, Quorum: 1})
	ctx := t.Context()
	yes := func(id string) broker.Request {
		t.Helper()
		out, err := x.Broker.Decide(ctx, x.Principals[id], r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := yes("a"); out.State != broker.RequestPending || slices.Contains(out.Votes[0].Groups, "safety") {
		t.Errorf("after one: %s, %v", out.State, out.Votes[0].Groups)
	}
	out := yes("c")
	if out.State != broker.RequestApproved || slices.Contains(out.Votes[1].Groups, "safety") {
		t.Errorf("after two of pay: %s, %v", out.State, out.Votes[1].Groups)
	}
	var by []policy.Approver
	for _, v := range out.Votes {
		by = append(by, policy.Approver{Name: v.By, Groups: v.Groups})
	}
	if r.Satisfied(by) {
		t.Error("people without a say in safety for this satisfy its rule")
	}
	if by = append(by, policy.Approver{Name: "b", Groups: people[1].Say(r.Scopes)}); !r.Satisfied(by) {
		t.Error("the approvals of both groups do not satisfy the rules")
	}
}

// TestWaitingWithin: pages of the requests within the limits, each request once, with the full
// count on each page.
func TestWaitingWithin(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{People: limited()})
	want := 0
	for i := range 18 {
		action := "admin"
		if i%2 == 0 {
			action, want = "write", want+1
		}
		waits(t, x, x.Open(t, brokertest.Spec()), fmt.Sprintf("orders:eu/%d:%s", i, action))
	}
	seen := map[string]bool{}
	f := broker.WaitFilter{Limit: 4}
	for range 10 {
		page, err := x.Broker.Waiting(t.Context(), x.Principals["bounded"], true, f)
		n := 0
		for _, k := range page.Counts {
			n += k
		}
		if err != nil || n != want {
			t.Fatal(n, err)
		}
		for _, r := range page.Requests {
			if seen[r.ID] {
				t.Errorf("%s twice", r.ID)
			}
			seen[r.ID] = true
		}
		if page.Next.ID == "" {
			break
		}
		f.After = page.Next
	}
	if len(seen) != want {
		t.Errorf("%d of %d", len(seen), want)
	}
}
