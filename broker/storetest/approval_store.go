package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// RunApprovalStore tests the contract of broker.ApprovalStore.
func RunApprovalStore(t *testing.T, open OpenStores) {
	run(t, open, func(t *storeTest) *approvalTest { return &approvalTest{t} }, map[string]func(*approvalTest){
		"Create": createRequest, "Repeat": repeatRequest, "RepeatRace": repeatRace, "Overdue": overdueIsReplaced, "Cap": capRequests, "OwnerCap": capOwner, "CapRace": capRace,
		"CreateForTask": createForTask, "CreateRefuses": createRefuses, "Settle": settle, "SettleRace": settleRace, "SettleWithLease": settleWithLease,
		"Approve": approve, "Deny": deny, "Vote": voteRefuses, "Quorum": quorum, "Narrower": narrower, "VoteRace": voteRace, "YesOrNo": yesOrNo,
		"Filters": requestFilters, "RequestPages": requestPages, "Waiting": waiting, "WaitingPages": waitingPages, "Marks": marked, "Seen": seen,
		"BreakGlass": breakGlass, "BreakGlassRefuses": breakGlassRefuses, "BreakGlassRace": breakGlassRace, "BreakGlassPages": breakGlassPages, "BreakGlassOtherName": breakGlassOtherName, "BreakGlassSession": breakGlassSession, "BreakGlassAgainstSignOut": breakGlassAgainstSignOut, "SightUnderGlass": sightUnderGlass,
		"VoteAlone": voteAlone, "VoteAloneAgainstEnd": voteAloneAgainstEnd,
	})
}

// approvalTest is a storeTest with the steps of broker.ApprovalStore.
type approvalTest struct{ *storeTest }

func (t *approvalTest) create(r broker.Request, limit int) (broker.Request, bool, error) {
	e := Entry(audit.RequestCreated, r.TaskID)
	e.RequestID = r.ID
	return t.ApprovalStore.Create(context.WithoutCancel(t.Context()), r, broker.Room{Open: limit}, e)
}

// asked creates a request of a new task.
func (t *approvalTest) asked(f func(*broker.Request)) broker.Request {
	t.Helper()
	r := Request(t.openTask().ID)
	if f != nil {
		f(&r)
	}
	out, made, err := t.create(r, 0)
	if err != nil || !made {
		t.Fatalf("create: made %v, %v", made, err)
	}
	return out
}

func (t *approvalTest) request(id string) broker.Request {
	t.Helper()
	got, err := t.ApprovalStore.Requests(t.Context(), broker.RequestFilter{IDs: []string{id}})
	if err != nil || len(got) != 1 {
		t.Fatalf("request %s: got %d, %v", id, len(got), err)
	}
	return got[0]
}

func (t *approvalTest) kinds(id string) []string {
	t.Helper()
	var out []string
	for _, e := range t.entries(broker.EntryFilter{RequestID: id}) {
		out = append(out, e.Kind)
	}
	return out
}

func createRequest(t *approvalTest) {
	r := Request(t.openTask().ID)
	out, made, err := t.create(r, 3)
	if err != nil || !made {
		t.Fatalf("made %v, %v", made, err)
	}
	t.same("created", out, r)
	t.same("stored", t.request(r.ID), r)
	t.same("entries", t.kinds(r.ID), []string{audit.RequestCreated})
	if got := t.request(r.ID).Reason.Raw(); got != r.Reason.Raw() {
		t.Errorf("got the words %q, want %q", got, r.Reason.Raw())
	}
}

func repeatRequest(t *approvalTest) {
	first := t.asked(nil)
	again := Request(first.TaskID)
	again.Dedupe = first.Dedupe
	for n := 2; n < 5; n++ {
		out, made, err := t.create(again, 1) // the limit does not apply: no request is added
		if err != nil || made {
			t.Fatalf("made %v, %v", made, err)
		}
		first.Asked = n
		t.same("repeated", out, first)
		t.same("stored", t.request(first.ID), first)
	}
	t.same("entries", t.kinds(again.ID), []string(nil))
	// Once the request is settled, the same scopes may be requested again.
	if _, err := t.ApprovalStore.Settle(t.Context(), first.ID, broker.RequestPending, broker.RequestWithdrawn, Epoch.Add(2*time.Minute), broker.Record{}); err != nil {
		t.Fatal(err)
	}
	if out, made, err := t.create(again, 1); err != nil || !made || out.ID != again.ID {
		t.Fatalf("made %v, %v", made, err)
	}
}

func repeatRace(t *approvalTest) {
	second := t.another()
	task := t.openTask()
	for range 5 {
		dedupe := newID("d")
		made := make([]bool, 16)
		errs := race(16, func(i int) error {
			r := Request(task.ID)
			r.Dedupe = dedupe
			e := Entry(audit.RequestCreated, r.TaskID)
			e.RequestID = r.ID
			var err error
			_, made[i], err = []broker.ApprovalStore{t.ApprovalStore, second.ApprovalStore}[i%2].Create(context.WithoutCancel(t.Context()), r, broker.Room{}, e)
			return err
		})
		t.want("create", errors.Join(errs...), nil)
		n := 0
		for _, m := range made {
			if m {
				n++
			}
		}
		got, err := t.ApprovalStore.Requests(t.Context(), broker.RequestFilter{Dedupe: dedupe})
		if err != nil || n != 1 || len(got) != 1 || got[0].Asked != 16 {
			t.Fatalf("%d were made and %d stored (%v), want one that was asked 16 times: %+v", n, len(got), err, got)
		}
	}
	t.same("entries", len(t.entries(broker.EntryFilter{Kind: audit.RequestCreated})), 5)
	t.verify()
}

// A request that expired without a decision must not keep its key taken.
func overdueIsReplaced(t *approvalTest) {
	old := t.asked(nil)
	again := Request(old.TaskID)
	again.Dedupe, again.CreatedAt, again.ExpiresAt = old.Dedupe, old.ExpiresAt, old.ExpiresAt.Add(time.Minute)
	out, made, err := t.create(again, 1)
	if err != nil || !made || out.ID != again.ID {
		t.Fatalf("made %v, %v", made, err)
	}
	old.State, old.DecidedAt, old.Code = broker.RequestExpired, again.CreatedAt, broker.NoAnswer
	t.same("old", t.request(old.ID), old)
	t.same("entries", t.kinds(old.ID), []string{audit.RequestCreated, audit.RequestExpired})
	_, err = t.ApprovalStore.Settle(t.Context(), old.ID, broker.RequestPending, broker.RequestExpired, again.CreatedAt, broker.Record{})
	t.want("expire it again", err, broker.ErrDone)
}

func capRequests(t *approvalTest) {
	task := t.openTask()
	for i := range 3 {
		_, made, err := t.create(Request(task.ID), 2)
		if i < 2 && (err != nil || !made) {
			t.Fatalf("made %v, %v", made, err)
		}
		if i == 2 {
			t.want("beyond the cap", err, broker.ErrCap)
		}
	}
	late := Request(task.ID) // by then the others have expired
	late.CreatedAt, late.ExpiresAt = Epoch.Add(time.Hour), Epoch.Add(2*time.Hour)
	if _, made, err := t.create(late, 2); err != nil || !made {
		t.Fatalf("made %v, %v", made, err)
	}
	if _, made, err := t.create(Request(t.openTask().ID), 2); err != nil || !made {
		t.Fatalf("another task: made %v, %v", made, err)
	}
}

// capOwner limits the requests for one owner at one runner within a time, over all tasks
// and regardless of their results.
func capOwner(t *approvalTest) {
	at := func(n int) time.Time { return Epoch.Add(time.Duration(n) * time.Minute) }
	create := func(minute int, owner, runner string) (broker.Request, error) {
		r := Request(t.openTask().ID)
		r.Owner, r.Runner, r.CreatedAt, r.ExpiresAt = owner, runner, at(minute), at(minute+30)
		out, _, err := t.ApprovalStore.Create(t.Context(), r, broker.Room{Owner: 2, Since: at(minute - 60)}, Entry(audit.RequestCreated, r.TaskID))
		return out, err
	}
	for minute, owner := range []string{"ann", "ann", "bob"} {
		r, err := create(minute, owner, "ci")
		t.want("within the cap", err, nil)
		if minute == 0 {
			_, err = t.ApprovalStore.Settle(t.Context(), r.ID, broker.RequestPending, broker.RequestWithdrawn, at(minute), broker.Record{})
			t.want("taken back", err, nil)
		}
	}
	_, err := create(3, "ann", "ci")
	t.want("the third of an owner", err, broker.ErrOwnerCap)
	_, err = create(3, "ann", "ci-2")
	t.want("of another runner", err, nil)
	_, err = create(60, "ann", "ci")
	t.want("an hour after the first", err, nil)
	_, err = create(60, "ann", "ci")
	t.want("and one more", err, broker.ErrOwnerCap)
	t.same("entries", len(t.entries(broker.EntryFilter{Kind: audit.RequestCreated})), 5)
}

func capRace(t *approvalTest) {
	second := t.another()
	task := t.openTask()
	errs := race(16, func(i int) error {
		r := Request(task.ID)
		_, _, err := []broker.ApprovalStore{t.ApprovalStore, second.ApprovalStore}[i%2].Create(context.WithoutCancel(t.Context()), r, broker.Room{Open: 3}, Entry(audit.RequestCreated, r.TaskID))
		return err
	})
	t.same("made", t.winners("create", errs, broker.ErrCap), 3)
	t.same("entries", len(t.entries(broker.EntryFilter{Kind: audit.RequestCreated})), 3)
}

func createForTask(t *approvalTest) {
	_, _, err := t.create(Request("tsk_none"), 0)
	t.want("unknown task", err, broker.ErrNotFound)
	task := t.openTask()
	t.append(broker.Record{MoveTask: closing(task.ID, Epoch)})
	_, _, err = t.create(Request(task.ID), 0)
	t.want("closed task", err, broker.ErrTaskClosed)
	first := t.asked(nil)
	twin := Request(first.TaskID)
	twin.ID = first.ID
	_, _, err = t.create(twin, 0)
	t.want("the id is taken", err, broker.ErrExists)
}

func createRefuses(t *approvalTest) {
	task := t.openTask()
	for name, spoil := range map[string]func(*broker.Request){
		"no id":     func(r *broker.Request) { r.ID = "" },
		"no task":   func(r *broker.Request) { r.TaskID = "" },
		"no key":    func(r *broker.Request) { r.Dedupe = "" },
		"no digest": func(r *broker.Request) { r.Digest = "" },
		"no rule":   func(r *broker.Request) { r.Rules = nil },
		"no group":  func(r *broker.Request) { r.Groups = nil },
		"no expiry": func(r *broker.Request) { r.ExpiresAt = r.CreatedAt },
		"NUL":       func(r *broker.Request) { r.Tool = "\x00" },
	} {
		r := Request(task.ID)
		spoil(&r)
		if _, _, err := t.create(r, 0); err == nil {
			t.Errorf("%s: created", name)
		}
	}
	if _, _, err := t.ApprovalStore.Create(t.Context(), Request(task.ID), broker.Room{}, audit.Entry{Kind: "x"}); err == nil {
		t.Error("created with an unknown kind of entry")
	}
	got, err := t.ApprovalStore.Requests(t.Context(), broker.RequestFilter{TaskID: task.ID})
	if err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func settle(t *approvalTest) {
	at := Epoch.Add(2 * time.Minute)
	all := []broker.RequestState{
		broker.RequestPending, broker.RequestApproved, broker.RequestIssued, broker.RequestDenied, broker.RequestExpired, broker.RequestWithdrawn, "", "gone",
	}
	legal := map[[2]broker.RequestState]bool{
		{broker.RequestPending, broker.RequestDenied}: true, {broker.RequestPending, broker.RequestExpired}: true, {broker.RequestPending, broker.RequestWithdrawn}: true,
		{broker.RequestApproved, broker.RequestIssued}: true, {broker.RequestApproved, broker.RequestExpired}: true, {broker.RequestApproved, broker.RequestWithdrawn}: true,
	}
	for _, from := range all {
		for _, to := range all {
			r := t.asked(nil)
			if from == broker.RequestApproved {
				var err error
				if r, err = t.ApprovalStore.Vote(t.Context(), yes(r, "bob"), Epoch.Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			e := Entry(audit.RequestWithdrawn, r.TaskID)
			e.RequestID = r.ID
			got, err := t.ApprovalStore.Settle(t.Context(), r.ID, from, to, at, broker.Record{Entries: []audit.Entry{e}})
			if !legal[[2]broker.RequestState{from, to}] {
				if err == nil || errors.Is(err, broker.ErrDone) {
					t.Errorf("%s to %s: got %v, want a refusal", from, to, err)
				}
				t.same("unchanged", t.request(r.ID), r)
				continue
			}
			t.want("settle", err, nil)
			r.State = to
			if from == broker.RequestPending {
				r.DecidedAt = at
			}
			if from == broker.RequestPending && to == broker.RequestExpired {
				r.Code = broker.NoAnswer
			}
			t.same(fmt.Sprint(from, " to ", to), got, r)
			t.same("stored", t.request(r.ID), r)
			_, err = t.ApprovalStore.Settle(t.Context(), r.ID, from, to, at, broker.Record{Entries: []audit.Entry{e}})
			t.want("again", err, broker.ErrDone)
			t.same("entries", t.kinds(r.ID)[1:], []string{audit.RequestWithdrawn})
		}
	}
	_, err := t.ApprovalStore.Settle(t.Context(), "req_none", broker.RequestPending, broker.RequestWithdrawn, at, broker.Record{})
	t.want("unknown", err, broker.ErrNotFound)
}

func settleRace(t *approvalTest) {
	second := t.another()
	r := t.asked(nil)
	errs := race(16, func(i int) error {
		to := []broker.RequestState{broker.RequestDenied, broker.RequestExpired, broker.RequestWithdrawn}[i%3]
		e := Entry(audit.RequestExpired, r.TaskID)
		e.RequestID = r.ID
		_, err := []broker.ApprovalStore{t.ApprovalStore, second.ApprovalStore}[i%2].Settle(context.WithoutCancel(t.Context()), r.ID, broker.RequestPending, to, Epoch.Add(time.Minute),
			broker.Record{Entries: []audit.Entry{e}})
		return err
	})
	t.same("winners", t.winners("settle", errs, broker.ErrDone), 1)
	kinds := t.kinds(r.ID) // from two writers at the same time: in either order
	slices.Sort(kinds)
	t.same("entries", kinds, []string{audit.RequestCreated, audit.RequestExpired})
}

// The first token and the move of the request are one unit.
func settleWithLease(t *approvalTest) {
	r := t.asked(nil)
	r, err := t.ApprovalStore.Vote(t.Context(), yes(r, "bob"), Epoch.Add(time.Hour))
	t.want("vote", err, nil)
	taken := t.issue(Lease(r.TaskID))
	record := func(l broker.Lease) broker.Record {
		e := Entry(audit.LeaseIssued, r.TaskID)
		e.RequestID, e.LeaseID = r.ID, l.ID
		return broker.Record{IssueLease: &l, Entries: []audit.Entry{e}}
	}
	_, err = t.ApprovalStore.Settle(t.Context(), r.ID, broker.RequestApproved, broker.RequestIssued, Epoch, record(taken))
	t.want("with a lease that exists", err, broker.ErrExists)
	t.same("unchanged", t.request(r.ID), r)
	leases := make([]broker.Lease, 16)
	errs := race(16, func(i int) error {
		leases[i] = Lease(r.TaskID)
		_, err := t.ApprovalStore.Settle(context.WithoutCancel(t.Context()), r.ID, broker.RequestApproved, broker.RequestIssued, Epoch, record(leases[i]))
		return err
	})
	t.same("winners", t.winners("settle", errs, broker.ErrDone), 1)
	for i, l := range leases {
		got, err := t.Store.Leases(t.Context(), broker.LeaseFilter{IDs: []string{l.ID}, Now: l.IssuedAt})
		if err != nil || (len(got) == 1) != (errs[i] == nil) {
			t.Errorf("lease of caller %d: got %d, %v; the caller got %v", i, len(got), err, errs[i])
		}
	}
	t.same("entries", t.kinds(r.ID), []string{audit.RequestCreated, audit.LeaseIssued})
	t.same("state", t.request(r.ID).State, broker.RequestIssued)
}
