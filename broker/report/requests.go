package report

import (
	"context"
	"slices"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// Requests lists the requests that the principal may see: approvers those of their groups,
// runners those of their tasks, viewers, auditors and operators all.
func (l *Listings) Requests(ctx context.Context, who broker.Principal, f broker.RequestFilter) ([]broker.Request, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleApprover, broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner, broker.RoleViewer); err != nil {
		return nil, err
	}
	sight, glass, err := l.sight(ctx, who)
	if err != nil {
		return nil, err
	}
	f.Sight = sight
	rs, err := l.approvalStore.Requests(ctx, f)
	if err != nil {
		return nil, broker.StoreError(err)
	}
	return l.asSeenBy(who, rs, glass), nil
}

// sight returns the limits of the requests that a person may see now; nil = all. In an open
// break-glass period the person also sees all waiting requests, and those approved in the
// period. glass is that period, "" = none.
func (l *Listings) sight(ctx context.Context, who broker.Principal) (s *broker.Sight, glass string, err error) {
	g, _, err := l.emergencies.OpenBreakGlass(ctx, who)
	if err != nil {
		return nil, "", err
	}
	if s = kernel.SightOf(who); s != nil {
		s.Glass = g.ID
	}
	return s, g.ID, nil
}

// asSeenBy removes the members that the principal may not see; glass is their open break-glass
// period, "" = none.
func (l *Listings) asSeenBy(who broker.Principal, rs []broker.Request, glass string) []broker.Request {
	for i := range rs {
		alone := glass != "" && (rs[i].State == broker.RequestPending || slices.ContainsFunc(rs[i].Votes, func(v broker.Vote) bool { return v.BreakGlass == glass }))
		rs[i].Match, rs[i].Votes = broker.MatchCode(rs[i].ID), kernel.ShownVotes(who, rs[i])
		if !alone && !ReadsWords(who, rs[i]) {
			rs[i].Reason = agenttext.Untrusted{}
		}
	}
	return rs
}

// ReadsWords reports whether the principal is shown the agent's words. A principal with only
// the role viewer is not, because the text is untrusted.
func ReadsWords(who broker.Principal, r broker.Request) bool {
	return who.Has(broker.RoleAuditor, broker.RoleOperator) || who.Has(broker.RoleApprover) && broker.Meet(r.Groups, who.Groups) || who.Has(broker.RoleRunner) && r.Runner == who.ID
}

// waitingLook is how many waiting requests are read for a search without an index.
const waitingLook = 1000

// WaitPage is a page of waiting requests.
type WaitPage struct {
	Requests []broker.Request
	Counts   map[int]int  // by Rank: of all waiting requests, or with Looked of the matches
	Looked   int          // for a search: number of waiting requests that were read
	Short    bool         // for a search: more requests wait after those
	Next     broker.Place // where the next page begins; zero = there is none
}

// Waiting returns the waiting requests that the principal may see, with their counts. It sets
// the members Now and Sight of f. If mine is set, it returns only requests that the principal may
// decide and has not voted on. A text, a provider and the scopes of a limited approver have no
// index; they are searched for among a bounded number of requests.
func (l *Listings) Waiting(ctx context.Context, who broker.Principal, mine bool, f broker.WaitFilter) (out WaitPage, err error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleApprover, broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner, broker.RoleViewer); err != nil {
		return out, err
	}
	sight, glass, err := l.sight(ctx, who)
	if err != nil {
		return out, err
	}
	if f.Now, f.Sight = l.clock.Now(), sight; glass != "" {
		f.Sight = nil // all waiting requests
	}
	if mine {
		f.NotOf, f.Sight = who.Names(), &broker.Sight{Groups: who.Groups}
		if glass == "" { // in a break-glass period the person can replace their vote by one that suffices alone
			f.NotBy = who.ID
		}
		if !who.Has(broker.RoleApprover) {
			return out, nil
		}
	}
	if f.TaskID == "" {
		if f.Without, err = l.fatigue.ThrottledRoots(ctx); err != nil {
			return out, err
		}
	}
	limit := f.Limit
	if limit == 0 {
		limit = 50
	}
	var places []broker.Place
	if limited := mine && who.Limited(); limited || f.Text != "" || f.Provider != "" {
		places, err = l.lookFor(ctx, who, limited, f, &out)
	} else {
		f.Limit = limit + 1
		places, err = l.inOrder(ctx, f, &out)
	}
	if err != nil {
		return out, err
	}
	if len(places) > limit {
		places = places[:limit]
		out.Next = places[limit-1]
	}
	out.Requests, err = l.atPlaces(ctx, who, places, glass)
	return out, err
}

// inOrder reads the waiting requests by their index. If the count is 0, the page is not read as
// well: the query is slow when only other people's requests wait.
func (l *Listings) inOrder(ctx context.Context, f broker.WaitFilter, out *WaitPage) (_ []broker.Place, err error) {
	if out.Counts, err = l.approvalStore.CountWaiting(ctx, f); err != nil {
		return nil, broker.StoreError(err)
	}
	if len(out.Counts) == 0 {
		return nil, nil
	}
	found, err := l.approvalStore.Waiting(ctx, f)
	if err != nil {
		return nil, broker.StoreError(err)
	}
	return found.Places, nil
}

// lookFor searches the waiting requests for values without an index. It starts at the first one
// as long as the page is among those, so that each page has the same counts.
func (l *Listings) lookFor(ctx context.Context, who broker.Principal, limited bool, f broker.WaitFilter, out *WaitPage) ([]broker.Place, error) {
	after := f.After
	f.After, f.Limit = broker.Place{}, waitingLook
	found, err := l.approvalStore.Waiting(ctx, f)
	if err == nil && after.ID != "" && found.Stop.ID != "" && !found.Stop.After(after) {
		f.After = after
		found, err = l.approvalStore.Waiting(ctx, f)
	}
	if err != nil {
		return nil, broker.StoreError(err)
	}
	places := found.Places
	if limited {
		if places, err = l.within(ctx, who, places); err != nil {
			return nil, err
		}
	}
	out.Looked, out.Short, out.Next, out.Counts = found.Looked, found.Stop.ID != "", found.Stop, map[int]int{}
	for _, p := range places {
		out.Counts[p.Rank]++
	}
	return slices.DeleteFunc(places, func(p broker.Place) bool { return after.ID != "" && !p.After(after) }), nil
}

// within keeps the requests that a limited approver may decide.
func (l *Listings) within(ctx context.Context, who broker.Principal, places []broker.Place) ([]broker.Place, error) {
	if len(places) == 0 {
		return nil, nil
	}
	ms, err := l.approvalStore.Marks(ctx, broker.RequestFilter{IDs: placeIDs(places), Page: broker.Page{Limit: len(places)}})
	if err != nil {
		return nil, broker.StoreError(err)
	}
	may := make(map[string]bool, len(ms))
	for _, m := range ms {
		may[m.ID] = m.For(who)
	}
	return slices.DeleteFunc(places, func(p broker.Place) bool { return !may[p.ID] }), nil
}

// atPlaces reads the requests at these places, without those that were decided meanwhile.
func (l *Listings) atPlaces(ctx context.Context, who broker.Principal, places []broker.Place, glass string) ([]broker.Request, error) {
	if len(places) == 0 {
		return nil, nil
	}
	ids := placeIDs(places)
	rs, err := l.approvalStore.Requests(ctx, broker.RequestFilter{IDs: ids, State: broker.RequestPending, Page: broker.Page{Limit: len(ids)}})
	if err != nil {
		return nil, broker.StoreError(err)
	}
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	slices.SortFunc(rs, func(a, b broker.Request) int { return at[a.ID] - at[b.ID] })
	return l.asSeenBy(who, rs, glass), nil
}

func placeIDs(places []broker.Place) []string {
	out := make([]string, 0, len(places))
	for _, p := range places {
		out = append(out, p.ID)
	}
	return out
}

// Request returns one request.
func (l *Listings) Request(ctx context.Context, who broker.Principal, id string) (broker.Request, error) {
	if !broker.ValidID(broker.RequestPrefix, id) {
		return broker.Request{}, kernel.NotFoundRequest(id)
	}
	rs, err := l.Requests(ctx, who, broker.RequestFilter{IDs: []string{id}})
	if err != nil {
		return broker.Request{}, err
	}
	if len(rs) == 0 {
		return broker.Request{}, kernel.NotFoundRequest(id)
	}
	return rs[0], nil
}
