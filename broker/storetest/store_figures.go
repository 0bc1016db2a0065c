package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
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
			t.want("end", (&queueTest{t}).end(l.ID, broker.LeaseRevoked, l.IssuedAt.Add(time.Duration(rnd.IntN(900))*time.Second)), nil)
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
		t.want("live", (&queueTest{t}).settle(m), nil)
	}
	if rnd.IntN(4) == 0 {
		return
	}
	proofs := []broker.Proof{broker.ProofProbed, broker.ProofConfirmed, broker.ProofBound, broker.ProofExpired, broker.ProofNever, broker.ProofForced}
	m.Hold, m.State, m.At, m.By = time.Time{}, finals[rnd.IntN(len(finals))], l.IssuedAt.Add(time.Duration(rnd.IntN(4000))*time.Second), "ebb"
	m.Upstream.DeadAt, m.Upstream.Proof, m.Upstream.NextAt = m.At.Add(time.Duration(rnd.IntN(9000))*time.Millisecond), proofs[rnd.IntN(len(proofs))], time.Time{}
	t.want("final", (&queueTest{t}).settle(m), nil)
}

func (t *storeTest) chanceRequest(rnd *rand.Rand, task string, after func(int) time.Time) {
	r := Request(task)
	r.CreatedAt = after(3600)
	r.ExpiresAt = r.CreatedAt.Add(time.Duration(1+rnd.IntN(40)) * time.Hour)
	r.Groups = [][]string{{"approvers"}, {"approvers", "owners"}}[rnd.IntN(2)]
	r.Rules = []policy.AskRule{{ID: "ask", Groups: r.Groups, Quorum: 1 + rnd.IntN(2)}}
	if _, _, err := (&approvalTest{t}).create(r, 0); err != nil {
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
		if rnd.IntN(3) > 0 {
			v.ShownAt = at.Add(-time.Duration(rnd.IntN(9000)) * time.Millisecond)
		}
		_, _ = t.ApprovalStore.Vote(t.Context(), v, at.Add(time.Duration(1+rnd.IntN(30))*time.Hour)) // some were decided before
	}
	from := (&approvalTest{t}).request(r.ID).State
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

// counted computes Figures by reading all data.
func (t *storeTest) counted(f broker.FigureFilter) broker.Figures {
	out := broker.Figures{From: f.From, To: f.To, Cell: f.Cell}
	for at := f.From.Truncate(f.Cell); at.Before(f.To); at = at.Add(f.Cell) {
		out.Cells = append(out.Cells, broker.FigureCell{Start: at})
	}
	in := func(at time.Time) *broker.FigureCell {
		if at.Before(f.From) || !at.Before(f.To) {
			return nil
		}
		return &out.Cells[at.Sub(out.Cells[0].Start)/f.Cell]
	}
	t.countRequests(f, &out, in)
	scope, by, took := map[string]int{}, map[string]int{}, map[string][]time.Duration{}
	times := map[string]*broker.RevocationTimes{}
	leases, err := t.Store.Leases(t.Context(), broker.LeaseFilter{Now: f.Now, Page: broker.Page{Limit: 1000}})
	t.want("leases", err, nil)
	for _, l := range leases {
		never := l.Upstream != nil && l.Upstream.Proof == broker.ProofNever
		ended := l.RevokedAt
		if ended.IsZero() {
			ended = l.ExpiresAt
		}
		if c := in(l.IssuedAt); c != nil && !never && l.State != broker.LeaseIntent {
			c.Issued++
			scope[l.Scopes.String()]++
			by[l.Provider]++
		}
		if c := in(ended); c != nil && !never && l.State != broker.LeaseIntent {
			if ended.Before(l.ExpiresAt) {
				c.Revoked++
			} else {
				c.Expired++
			}
		}
		if l.Upstream == nil || l.Upstream.DeadAt.IsZero() || in(l.Upstream.DeadAt) == nil {
			continue
		}
		d := times[l.Provider]
		if d == nil {
			d = &broker.RevocationTimes{Provider: l.Provider}
			times[l.Provider] = d
		}
		switch l.Upstream.Proof {
		case broker.ProofNever:
			d.Never++
		case broker.ProofForced:
			d.Forced++
		case broker.ProofExpired:
			d.ByExpiry++
			fallthrough
		default:
			d.N++
			took[l.Provider] = append(took[l.Provider], max(l.Upstream.DeadAt.Sub(ended), 0))
		}
	}
	out.Scopes, out.Providers = top(scope), top(by)
	for _, name := range slices.Sorted(maps.Keys(times)) {
		d := times[name]
		slices.Sort(took[name])
		for to, share := range map[*time.Duration]float64{&d.P50: .5, &d.P95: .95, &d.Max: 1} {
			for i, v := range took[name] { // the smallest value that at least this share does not exceed
				if float64(i+1) >= share*float64(d.N) {
					*to = v
					break
				}
			}
		}
		out.Revocations = append(out.Revocations, *d)
	}
	return out
}

func (t *storeTest) countRequests(f broker.FigureFilter, out *broker.Figures, in func(time.Time) *broker.FigureCell) {
	rs, err := t.ApprovalStore.Requests(t.Context(), broker.RequestFilter{Page: broker.Page{Limit: 1000}})
	t.want("requests", err, nil)
	type ballot struct {
		id    string
		place int
		broker.Decision
	}
	var votes []ballot
	for _, r := range rs {
		for i, v := range r.Votes {
			if in(v.At) == nil || r.State == broker.RequestPending && r.ExpiresAt.After(f.Now) {
				continue
			}
			d := broker.Decision{By: v.By, Approve: v.Approve, At: v.At}
			if d.Timed = !v.ShownAt.IsZero(); d.Timed {
				d.Took = v.At.Sub(v.ShownAt)
			}
			for _, g := range r.Groups {
				if slices.Contains(v.Groups, g) {
					d.Groups = append(d.Groups, g)
				}
			}
			slices.Sort(d.Groups)
			votes = append(votes, ballot{r.ID, i, d})
		}
		c := in(r.CreatedAt)
		if c == nil {
			continue
		}
		switch approved := !r.Granted.Empty(); {
		case r.State == broker.RequestIssued:
			c.Taken++
		case r.State == broker.RequestApproved && r.GrantUntil.After(f.Now):
			c.Fetchable++
		case approved:
			c.Untaken++
		case r.State == broker.RequestPending && r.ExpiresAt.After(f.Now):
			c.Waiting++
		case r.State == broker.RequestDenied:
			c.Denied++
		case r.State == broker.RequestWithdrawn:
			c.Withdrawn++
		default:
			c.Unanswered++
		}
	}
	slices.SortFunc(votes, func(a, b ballot) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.id, a.id), b.place-a.place)
	})
	for _, v := range votes {
		out.Decisions = append(out.Decisions, v.Decision)
	}
	for _, e := range t.entries(broker.EntryFilter{Kind: audit.TokenDenied}) {
		if c := in(e.At); c != nil {
			c.Refused++
		}
	}
	ends := map[broker.Cause]int{}
	tasks, err := t.Store.Tasks(t.Context(), broker.TaskFilter{State: broker.TaskClosed, Page: broker.Page{Limit: 1000}})
	t.want("tasks", err, nil)
	for _, k := range tasks {
		if in(k.ClosedAt) != nil {
			ends[k.Cause]++
		}
	}
	for cause, n := range ends {
		out.Ends = append(out.Ends, broker.TaskEnds{Cause: cause, N: n})
	}
	slices.SortFunc(out.Ends, func(a, b broker.TaskEnds) int { return cmp.Or(b.N-a.N, cmp.Compare(a.Cause, b.Cause)) })
}

func top(counts map[string]int) []broker.Busy {
	var out []broker.Busy
	for name, n := range counts {
		out = append(out, broker.Busy{Name: name, N: n})
	}
	slices.SortFunc(out, func(a, b broker.Busy) int { return cmp.Or(b.N-a.N, cmp.Compare(a.Name, b.Name)) })
	return out[:min(len(out), broker.FigureNames)]
}
