package core_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// seenBy returns a request that Approver approved, with a second approval missing.
func seenBy(t *testing.T) (*brokertest.Env, *brokertest.Sandbox, broker.Request) {
	t.Helper()
	x := brokertest.New(t, brokertest.Config{Limits: broker.Limits{HighRiskQuorum: 2}})
	s := x.Open(t, brokertest.Spec())
	r := waits(t, x, s, "orders:eu/1:write")
	v := broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, Snapshot: `{"page":"1"}`}
	if _, err := x.Broker.Decide(t.Context(), x.Principals[brokertest.Approver], r.ID, v); err != nil {
		t.Fatal(err)
	}
	return x, s, r
}

func waits(t *testing.T, x *brokertest.Env, s *brokertest.Sandbox, scope string) broker.Request {
	t.Helper()
	if _, err := s.AskDeferred(t, scope); broker.AsError(err).Kind != broker.Pending {
		t.Fatal(err)
	}
	rs, err := x.Broker.Requests(t.Context(), x.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: s.Task.ID, State: broker.RequestPending})
	if err != nil || len(rs) != 1 {
		t.Fatal(len(rs), err)
	}
	return rs[0]
}

// Auditors, and the approver, can read the evidence that was shown to the approver.
func TestSeenForWhom(t *testing.T) {
	t.Parallel()
	x, _, r := seenBy(t)
	both := broker.Principal{ID: "zoe", Roles: []broker.Role{broker.RoleApprover, broker.RoleAuditor}, Groups: []string{"approvers"}}
	for name, c := range map[string]struct {
		who  broker.Principal
		want bool
	}{
		"auditor":                    {x.Principals[brokertest.Auditor], true},
		"operator":                   {x.Principals[brokertest.Operator], true},
		"the voter":                  {x.Principals[brokertest.Approver], true},
		"the second approver":        {x.Principals[brokertest.Second], false},
		"the runner of the task":     {x.Principals[brokertest.Runner], false},
		"another runner":             {x.Principals[brokertest.Runner2], false},
		"a resource server":          {x.Principals[brokertest.Server], false},
		"nobody":                     {broker.Principal{}, false},
		"an auditor who decides too": {both, false},
	} {
		_, vote, err := x.Broker.EvidenceSnapshot(t.Context(), c.who, r.ID, brokertest.Approver)
		if got := err == nil && vote.Snapshot == `{"page":"1"}`; got != c.want {
			t.Errorf("%s: %v, %v", name, vote.Snapshot, err)
		}
		if rs, err := x.Broker.Requests(t.Context(), c.who, broker.RequestFilter{IDs: []string{r.ID}}); err == nil && len(rs) > 0 {
			if len(rs[0].Votes) > 0 && rs[0].Votes[0].Snapshot != "" {
				t.Errorf("%s reads the shown evidence in a list", name)
			}
			if name == "an auditor who decides too" && len(rs[0].Votes) > 0 {
				t.Error("the first answer shows before the second is given")
			}
		}
	}
	for _, voter := range []string{"", "bob", "ANN", "ann'--"} {
		if _, _, err := x.Broker.EvidenceSnapshot(t.Context(), x.Principals[brokertest.Auditor], r.ID, voter); broker.AsError(err).Kind != broker.NotFound {
			t.Errorf("%q: %v", voter, err)
		}
	}
	if _, _, err := x.Broker.EvidenceSnapshot(t.Context(), x.Principals[brokertest.Auditor], "req_x", "ann"); broker.AsError(err).Kind != broker.NotFound {
		t.Error(err)
	}
}

// The audit log has the hash of the shown evidence, and texts that are too long are not stored.
//
//ebb:invariant I11 Each approver's decision on a request is recorded in the audit log
func TestSeenRecorded(t *testing.T) {
	t.Parallel()
	x, _, r := seenBy(t)
	entries, err := x.Broker.Entries(t.Context(), x.Principals[brokertest.Auditor], broker.EntryFilter{RequestID: r.ID, Kind: audit.RequestVoted})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range entries {
		if n++; err != nil || !strings.Contains(string(e.Data), `"seen_sha256":"`+broker.TextHash(`{"page":"1"}`)+`"`) {
			t.Errorf("%s, %v", e.Data, err)
		}
	}
	if n != 1 {
		t.Errorf("%d entries", n)
	}
	v := broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, Snapshot: strings.Repeat("x", approval.MaxSnapshot+1)}
	if _, err := x.Broker.Decide(t.Context(), x.Principals[brokertest.Second], r.ID, v); broker.AsError(err).Kind != broker.Invalid {
		t.Error(err)
	}
}

// A match code is the same everywhere and permanently, and short enough to read out.
func TestMatchCode(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[A-Z]{3,8}-[1-9][0-9]$`)
	count := map[string]int{}
	for i := range 3000 {
		code := broker.MatchCode("req_" + strings.Repeat("0", i%7) + time.Unix(int64(i), 0).UTC().Format(time.RFC3339))
		if count[code]++; !form.MatchString(code) {
			t.Fatalf("%q", code)
		}
	}
	if len(count) < 2000 {
		t.Errorf("3000 requests have %d codes", len(count))
	}
	if got := broker.MatchCode("req_01a200e05b0b727ebdadb0166d9d9124"); got != "HERON-67" {
		t.Errorf("got %s", got)
	}
}

// Again returns the facts on which a decision would be made, and changes nothing.
func TestAgain(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	r := waits(t, x, s, "orders:eu/1:write")
	who := x.Principals[brokertest.Approver]
	effect, same, err := x.Broker.Again(t.Context(), who, r.ID)
	if err != nil || effect != policy.Ask || same.Digest != r.Digest {
		t.Fatalf("%v %s %v", effect, same.Digest, err)
	}
	if _, err := x.Broker.TaintTask(t.Context(), x.Principals[brokertest.Runner], r.TaskID, []string{"web"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, other, err := x.Broker.Again(t.Context(), who, r.ID); err != nil || other.Digest == r.Digest || other.State != broker.RequestPending {
			t.Errorf("%s %s %v", other.Digest, other.State, err)
		}
	}
	if _, _, err := x.Broker.Again(t.Context(), x.Principals[brokertest.Runner2], r.ID); broker.AsError(err).Kind != broker.NotFound {
		t.Errorf("another runner: %v", err)
	}
	if _, err := x.Broker.CompleteTask(t.Context(), x.Principals[brokertest.Runner], r.TaskID, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Broker.Again(t.Context(), who, r.ID); err == nil {
		t.Error("of a task that is over")
	}
}

// The queue of each person has the requests that they may see; on demand, only those that they may
// decide.
func TestWaiting(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Owner = "ANN"
	own := waits(t, x, x.Open(t, spec), "orders:eu/1:write")
	other := waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/2:write")
	for name, c := range map[string]struct {
		who  string
		mine bool
		want int
	}{
		"owner of one": {brokertest.Approver, true, 1}, "all she sees": {brokertest.Approver, false, 2}, "another approver": {brokertest.Second, true, 2},
		"auditor": {brokertest.Auditor, false, 2}, "auditor decides nothing": {brokertest.Auditor, true, 0}, "runner": {brokertest.Runner, false, 2}, "another runner": {brokertest.Runner2, false, 0},
	} {
		page, err := x.Broker.Waiting(t.Context(), x.Principals[c.who], c.mine, broker.WaitFilter{})
		rs, n := page.Requests, 0
		for _, k := range page.Counts {
			n += k
		}
		if err != nil || len(rs) != c.want || n != c.want {
			t.Errorf("%s: %d rows, %d counted, %v", name, len(rs), n, err)
		}
		for _, r := range rs {
			if r.Match != broker.MatchCode(r.ID) || len(r.Votes) > 0 || r.Rank == 0 {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	if _, err := x.Broker.Waiting(t.Context(), x.Principals[brokertest.Server], false, broker.WaitFilter{}); broker.AsError(err).Kind != broker.Forbidden {
		t.Error(err)
	}
	if err := broker.MayDecide(x.Principals[brokertest.Approver], own); broker.AsError(err).Kind != broker.Forbidden {
		t.Error(err)
	}
	if err := broker.MayDecide(x.Principals[brokertest.Approver], other); err != nil {
		t.Error(err)
	}
}

// TestFirstAnswerIsHiddenOnTheRecord: a person who is approver and auditor finds the first vote
// nowhere before voting, and everywhere afterwards; the chain verifies for them all the time.
func TestFirstAnswerIsHiddenOnTheRecord(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *brokertest.Env, broker.Principal, broker.Request) error{
		"answered": func(t *testing.T, x *brokertest.Env, who broker.Principal, r broker.Request) error {
			_, err := x.Broker.Decide(t.Context(), who, r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true})
			return err
		},
		"ended": func(t *testing.T, x *brokertest.Env, _ broker.Principal, r broker.Request) error {
			_, err := x.Broker.Decide(t.Context(), x.Principals[brokertest.Second], r.ID, broker.Verdict{Code: broker.NotNeeded, Note: "no"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, _, r := seenBy(t)
			roles := []broker.Role{broker.RoleApprover, broker.RoleAuditor}
			both := broker.Principal{ID: "zoe", Roles: roles, Groups: []string{"approvers"}}
			others := map[string]broker.Principal{
				"an auditor": x.Principals[brokertest.Auditor], "an auditor of another group": {ID: "yan", Roles: roles, Groups: []string{"others"}},
				"who has answered": {ID: brokertest.Approver, Roles: roles, Groups: []string{"approvers"}}, "by another name": {ID: "sso:1", Also: []string{brokertest.Approver}, Roles: roles, Groups: []string{"approvers"}},
			}
			check := func(who broker.Principal, want int) {
				t.Helper()
				if n := votesSeen(t, x, who, r); n != want {
					t.Errorf("%s finds it in %d ways, want %d", who.ID, n, want)
				}
				done, err := x.Broker.CheckRecord(t.Context(), who, 1000)
				if err != nil || done.Fault != nil {
					t.Errorf("%s: the record does not hold together: %v %v", who.ID, done.Fault, err)
				}
				if err := x.Broker.MayExport(t.Context(), who); (err == nil) != (want > 0) {
					t.Errorf("%s exports: %v", who.ID, err)
				}
			}
			check(both, 0)
			for _, o := range others {
				check(o, 4)
			}
			if err := end(t, x, both, r); err != nil {
				t.Fatal(err)
			}
			check(both, 4)
		})
	}
}

// votesSeen returns in how many of four ways a person finds Approver's vote in the audit log.
func votesSeen(t *testing.T, x *brokertest.Env, who broker.Principal, r broker.Request) (n int) {
	t.Helper()
	var at audit.Entry
	for e, err := range x.Config.Store.Entries(t.Context(), broker.EntryFilter{Kind: audit.RequestVoted, RequestID: r.ID, Actor: brokertest.Approver}) {
		if at = e; err != nil {
			t.Fatal(err)
		}
	}
	is := func(e audit.Entry) int {
		if e.Kind == audit.RequestVoted && e.Actor == brokertest.Approver {
			return 1
		}
		return 0
	}
	entries, err := x.Broker.Entries(t.Context(), who, broker.EntryFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range entries {
		if n += is(e); err != nil {
			t.Fatal(err)
		}
	}
	list, err := x.Broker.EntryList(t.Context(), who, broker.EntryQuery{RequestID: r.ID, Limit: 100, Look: 101})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Entries {
		n += is(e)
	}
	one, err := x.Broker.Entry(t.Context(), who, at.Writer, at.Seq)
	if n += is(one); err != nil && broker.AsError(err).Kind != broker.Forbidden {
		t.Fatal(err)
	}
	if _, _, err := x.Broker.EvidenceSnapshot(t.Context(), who, r.ID, brokertest.Approver); err == nil {
		n++
	}
	return n
}

// TestFirstAnswerIsHiddenInABatch: a batch decision stays hidden while one of its requests waits
// for the reader's vote, because the stored texts of each name the others.
func TestFirstAnswerIsHiddenInABatch(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{Policies: map[string][]byte{"p.cedar": []byte(`@id("two") @ask("approvers") @quorum("2") permit (principal, action, resource);`)}})
	s := x.Open(t, brokertest.Spec())
	waits(t, x, s, "orders:eu/1:read")
	if _, err := s.AskDeferred(t, "orders:eu/2:read"); kind(err) != broker.Pending {
		t.Fatal(err)
	}
	ctx := t.Context()
	rs, err := x.Broker.Requests(ctx, x.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: s.Task.ID})
	if err != nil || len(rs) != 2 {
		t.Fatal(len(rs), err)
	}
	if out, err := x.Broker.DecideBatch(ctx, x.Principals[brokertest.Approver], []approval.Shown{{ID: rs[0].ID, Digest: rs[0].Digest}, {ID: rs[1].ID, Digest: rs[1].Digest}}, broker.Verdict{Approve: true}); err != nil || out[0].Err != nil || out[1].Err != nil {
		t.Fatal(out, err)
	}
	both := broker.Principal{ID: "zoe", Roles: []broker.Role{broker.RoleApprover, broker.RoleAuditor}, Groups: []string{"approvers"}}
	for i, want := range []int{0, 2} { // number of Approver's votes in the audit log after each of zoe's
		if _, err := x.Broker.Decide(ctx, both, rs[i].ID, broker.Verdict{Approve: true, Digest: rs[i].Digest, Target: rs[i].Target(), Present: true}); err != nil {
			t.Fatal(err)
		}
		entries, err := x.Broker.Entries(ctx, both, broker.EntryFilter{Kind: audit.RequestVoted, Actor: brokertest.Approver})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for e, err := range entries {
			if n++; err != nil || !strings.Contains(string(e.Data), rs[1].ID) {
				t.Errorf("%s: %v", e.Data, err)
			}
		}
		if n != want {
			t.Errorf("after %d answers %d are on the record, want %d", i+1, n, want)
		}
	}
}
