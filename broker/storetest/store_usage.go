package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/scopes"
)

// usage: the sums over windows of a random history equal a count of all its data.
func usage(t *storeTest) {
	rnd := rand.New(rand.NewPCG(13, uint64(t.Name()[0])))
	now := Epoch.Add(30 * time.Hour)
	for i := range 25 {
		t.chanceUses(rnd, fmt.Sprintf("Owner%d@example.org", i%3))
	}
	uses := t.entries(broker.EntryFilter{Kind: audit.EgressAllowed})
	for _, from := range []time.Time{Epoch.Add(-time.Hour), Epoch.Add(9 * time.Hour), Epoch.Add(20*time.Hour + time.Millisecond), now.Add(-time.Minute)} {
		for _, end := range []time.Time{now, Epoch.Add(21 * time.Hour), uses[len(uses)/2].At} {
			for _, by := range []broker.UsageBy{report.UsageByScope, report.UsageByOwner, report.UsageByTask} {
				f := broker.UsageFilter{From: from, Now: end, By: by}
				if !from.Before(end) {
					continue
				}
				got, err := t.Store.Usage(t.Context(), f)
				t.want("usage", err, nil)
				want := t.countUsage(f)
				if len(got.Items)+len(want.Items) == 0 {
					got.Items, want.Items = nil, nil
				}
				t.same(fmt.Sprint(from, end, by), got, want)
			}
		}
	}
	for _, f := range []broker.UsageFilter{{}, {From: Epoch, Now: now}, {From: Epoch, Now: now, By: "provider"}, {From: now, Now: now, By: report.UsageByTask}, {Now: now, By: report.UsageByTask}} {
		if _, err := t.Store.Usage(t.Context(), f); err == nil {
			t.Errorf("%+v was answered", f)
		}
	}
}

// chanceUses adds a task of owner with credentials, some of which are used.
func (t *storeTest) chanceUses(rnd *rand.Rand, owner string) {
	at := Epoch.Add(time.Duration(rnd.IntN(24*3600)) * time.Second)
	task := Task()
	task.Owner, task.OpenedAt, task.Deadline = owner, at, at.Add(2*time.Hour)
	t.append(broker.Record{OpenTask: &task})
	for range rnd.IntN(6) {
		l := Lease(task.ID)
		if rnd.IntN(3) == 0 {
			l = Intent(task.ID)
		}
		l.Owner, l.Tool, l.Delivery = owner, []string{"", "curl"}[rnd.IntN(2)], []string{"egress", "egress", "egress", "token", ""}[rnd.IntN(5)]
		l.Provider += fmt.Sprint(rnd.IntN(2))
		l.Scopes = scopes.MustParseSet(fmt.Sprintf("orders:eu/%d:read", rnd.IntN(3)))
		l.IssuedAt = at.Add(time.Duration(rnd.IntN(3600)) * time.Second)
		l.ExpiresAt = l.IssuedAt.Add(time.Duration(1+rnd.IntN(7*3600)) * time.Second)
		if l.Upstream != nil {
			l.Upstream.NextAt = l.IssuedAt.Add(time.Minute)
		}
		t.issue(l)
		for range rnd.IntN(4) {
			kind := []string{audit.EgressAllowed, audit.EgressAllowed, audit.EgressCompleted, audit.EgressDenied}[rnd.IntN(4)]
			used := l.IssuedAt.Add(time.Duration(rnd.IntN(1000)) * time.Second)
			t.append(broker.Record{Entries: []audit.Entry{{At: used, Kind: kind, Actor: l.Sandbox, TaskID: task.ID, LeaseID: l.ID}}})
		}
		switch {
		case l.Upstream != nil && rnd.IntN(2) == 0: // the others are never minted
			t.chanceUpstream(rnd, l)
		case l.Upstream != nil:
		case rnd.IntN(4) == 0:
			t.want("end", (&queueTest{t}).end(l.ID, broker.LeaseRevoked, l.IssuedAt.Add(time.Duration(rnd.IntN(900))*time.Second)), nil)
		}
	}
	if rnd.IntN(2) == 0 {
		m := closing(task.ID, at.Add(time.Duration(1+rnd.IntN(7200))*time.Second))
		t.append(broker.Record{MoveTask: m})
	}
}

// countUsage computes Usage by reading all data.
func (t *storeTest) countUsage(f broker.UsageFilter) broker.Usage {
	out := broker.Usage{From: f.From, UsesFrom: f.From, At: f.Now, By: f.By}
	uses, last := map[string]int{}, map[string]time.Time{}
	for _, e := range t.entries(broker.EntryFilter{Kind: audit.EgressAllowed}) {
		if !e.At.Before(f.From) && !e.At.After(f.Now) {
			uses[e.LeaseID]++
			if e.At.After(last[e.LeaseID]) {
				last[e.LeaseID] = e.At
			}
		}
	}
	leases, err := t.Store.Leases(t.Context(), broker.LeaseFilter{Now: f.Now, Page: broker.Page{Limit: 1000}})
	t.want("leases", err, nil)
	rows := map[broker.GrantUsage]*broker.GrantUsage{}
	for _, l := range leases {
		never := l.Upstream != nil && l.Upstream.Proof == broker.ProofNever
		if l.IssuedAt.Before(f.From) || l.IssuedAt.After(f.Now) || never || l.State == broker.LeaseIntent {
			continue
		}
		if l.Delivery != "egress" {
			out.HandedOut++
			if uses[l.ID] > 0 {
				out.Carried++
			}
			continue
		}
		key := map[broker.UsageBy]broker.GrantUsage{
			report.UsageByScope: {Provider: l.Provider, Scope: l.Scopes.String(), Tool: l.Tool}, report.UsageByOwner: {Owner: l.Owner}, report.UsageByTask: {TaskID: l.TaskID, Owner: l.Owner},
		}[f.By]
		r := rows[key]
		if r == nil {
			r = &key
			rows[key] = r
		}
		r.Issued++
		ended := l.RevokedAt
		if ended.IsZero() {
			ended = l.ExpiresAt
		}
		switch n := uses[l.ID]; {
		case n > 0:
			r.Used, r.Uses = r.Used+1, r.Uses+n
			if last[l.ID].After(r.LastUsed) {
				r.LastUsed = last[l.ID]
			}
		case !ended.After(f.Now):
			r.Unused++
		}
	}
	for _, r := range rows {
		out.Items = append(out.Items, *r)
	}
	slices.SortFunc(out.Items, func(a, b broker.GrantUsage) int {
		return cmp.Or(b.Unused-a.Unused, b.Issued-a.Issued, cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Tool, b.Tool),
			cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Owner, b.Owner))
	})
	return out
}
