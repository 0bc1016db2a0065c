package storetest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// figures: the sums over windows of a random history equal a count of all its data.
func figures(t *storeTest) {
	rnd := rand.New(rand.NewPCG(11, uint64(t.Name()[0])))
	now := Epoch.Add(50 * time.Hour)
	for range 60 {
		t.chance(rnd)
	}
	for _, w := range []struct {
		from, to time.Time
		cell     time.Duration
	}{
		{Epoch.Add(-time.Hour), now, time.Hour}, {Epoch.Add(-48 * time.Hour), now, 24 * time.Hour}, {Epoch.Add(7 * time.Hour), Epoch.Add(23*time.Hour + 17*time.Minute), time.Hour},
		{Epoch.Add(20*time.Hour + time.Millisecond), Epoch.Add(21 * time.Hour), time.Minute}, {Epoch.Add(-9 * time.Hour), Epoch.Add(-8 * time.Hour), time.Hour},
	} {
		f := broker.FigureFilter{From: w.from, To: w.to, Now: now, Cell: w.cell}
		got, err := t.Store.Figures(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		want := t.counted(f)
		g, v := reflect.ValueOf(got), reflect.ValueOf(want)
		for i := range g.NumField() {
			if g.Field(i).Kind() == reflect.Slice && g.Field(i).Len() == 0 && v.Field(i).Len() == 0 {
				continue
			}
			t.same(fmt.Sprint(w, g.Type().Field(i).Name), g.Field(i).Interface(), v.Field(i).Interface())
		}
	}
	for _, f := range []broker.FigureFilter{
		{}, {From: Epoch, To: now, Cell: time.Hour}, {From: now, To: now, Now: now, Cell: time.Hour}, {From: Epoch, To: now, Now: now}, {From: Epoch, To: now.Add(1000 * time.Hour), Now: now, Cell: time.Hour},
	} {
		if _, err := t.Store.Figures(t.Context(), f); err == nil {
			t.Errorf("%+v was answered", f)
		}
	}
}

// chance adds a task with random requests and credentials, opened in the first 40 hours.
func (t *storeTest) chance(rnd *rand.Rand) {
	at := Epoch.Add(time.Duration(rnd.IntN(40*3600)) * time.Second)
	after := func(s int) time.Time { return at.Add(time.Duration(1+rnd.IntN(s)) * time.Second) }
	task := Task()
	task.OpenedAt, task.Deadline = at, at.Add(2*time.Hour)
	t.append(broker.Record{OpenTask: &task})
	var leases []broker.Lease
	for range rnd.IntN(5) {
		l := Lease(task.ID)
		if rnd.IntN(2) == 0 {
			l = Intent(task.ID)
		}
		l.Provider += fmt.Sprint(rnd.IntN(2))
		l.Scopes = scopes.MustParseSet(fmt.Sprintf("orders:eu/%d:read", rnd.IntN(14)))
		l.IssuedAt = after(3600)
		l.ExpiresAt = l.IssuedAt.Add(time.Duration(1+rnd.IntN(3600)) * time.Second)
		if l.Upstream != nil {
			l.Upstream.NextAt = l.IssuedAt.Add(time.Minute)
		}
		t.issue(l)
		leases = append(leases, l)
	}
	for range rnd.IntN(4) {
		t.chanceRequest(rnd, task.ID, after)
	}
	for range rnd.IntN(3) {
		t.append(broker.Record{Entries: []audit.Entry{{At: after(7200), Kind: audit.TokenDenied, Actor: "ebb", TaskID: task.ID}}})
	}
	for _, l := range leases {
		if l.Upstream != nil {
			t.chanceUpstream(rnd, l)
		} else if rnd.IntN(4) == 0 {
			t.want("end", t.end(l.ID, broker.LeaseRevoked, l.IssuedAt.Add(time.Duration(rnd.IntN(900))*time.Second)), nil)
		}
	}
	if rnd.IntN(4) > 0 {
		causes := []broker.Cause{broker.CauseCompleted, broker.CauseDeadline, broker.CauseStopped}
		m := closing(task.ID, after(7200))
		m.Cause = causes[rnd.IntN(len(causes))]
		t.append(broker.Record{MoveTask: m})
	}
}

func (t *storeTest) chanceUpstream(rnd *rand.Rand, l broker.Lease) {
	m := broker.LeaseMove{ID: l.ID, Fence: 1, State: broker.LeaseLive, At: l.IssuedAt, Upstream: *l.Upstream}
	m.Hold = l.IssuedAt.Add(time.Hour)
	if rnd.IntN(3) > 0 {
		t.want("live", t.settle(m), nil)
	}
	if rnd.IntN(4) == 0 {
		return
	}
	proofs := []broker.Proof{broker.ProofProbed, broker.ProofConfirmed, broker.ProofBound, broker.ProofExpired, broker.ProofNever, broker.ProofForced}
	m.Hold, m.State, m.At, m.By = time.Time{}, finals[rnd.IntN(len(finals))], l.IssuedAt.Add(time.Duration(rnd.IntN(4000))*time.Second), "ebb"
	m.Upstream.DeadAt, m.Upstream.Proof, m.Upstream.NextAt = m.At.Add(time.Duration(rnd.IntN(9000))*time.Millisecond), proofs[rnd.IntN(len(proofs))], time.Time{}
	t.want("final", t.settle(m), nil)
}

func (t *storeTest) chanceRequest(rnd *rand.Rand, task string, after func(int) time.Time) {
	r := Request(task)
	r.CreatedAt = after(3600)
	r.ExpiresAt = r.CreatedAt.Add(time.Duration(1+rnd.IntN(40)) * time.Hour)
	r.Groups = [][]string{{"approvers"}, {"approvers", "owners"}}[rnd.IntN(2)]
	r.Rules = []policy.AskRule{{ID: "ask", Groups: r.Groups, Quorum: 1 + rnd.IntN(2)}}
	if _, _, err := t.create(r, 0); err != nil {
		t.Fatal(err)
	}
	at := r.CreatedAt
	for _, by := range []string{"ann", "bob"}[:rnd.IntN(3)] {
		at = at.Add(time.Duration(rnd.IntN(9000)) * time.Millisecond)
		v := yes(r, by)
		if rnd.IntN(3) == 0 {
			v = no(r, by)
		}
		v.At, v.Groups = at, [][]string{{"approvers"}, {"owners", "approvers", "owners"}, {"strangers", "approvers"}}[rnd.IntN(3)]
		_, _ = t.ApprovalStore.Vote(t.Context(), v, at.Add(time.Duration(1+rnd.IntN(30))*time.Hour)) // some were decided before
	}
	from := t.request(r.ID).State
	to := map[broker.RequestState][]broker.RequestState{
		broker.RequestPending:  {broker.RequestExpired, broker.RequestWithdrawn},
		broker.RequestApproved: {broker.RequestIssued, broker.RequestIssued, broker.RequestWithdrawn, broker.RequestExpired},
	}[from]
	if len(to) > 0 && rnd.IntN(3) > 0 {
		if _, err := t.ApprovalStore.Settle(t.Context(), r.ID, from, to[rnd.IntN(len(to))], at.Add(time.Minute), broker.Record{}); err != nil {
			t.Fatal(err)
		}
	}
}
