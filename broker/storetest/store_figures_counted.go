package storetest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

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
			d := broker.Decision{By: v.By, Approve: v.Approve, Took: v.At.Sub(r.CreatedAt), At: v.At}
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
