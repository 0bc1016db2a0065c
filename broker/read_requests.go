package broker

import (
	"context"
	"slices"

	"ebb/broker/agenttext"
)

// Requests lists requests that who may see: approvers those of their groups,
// runners those of their tasks, viewers, auditors and operators all.
func (b *Broker) Requests(ctx context.Context, who Principal, f RequestFilter) ([]Request, error) {
	if err := allow(who, certain, RoleApprover, RoleAuditor, RoleOperator, RoleRunner, RoleViewer); err != nil {
		return nil, err
	}
	sight, glass, err := b.sight(ctx, who)
	if err != nil {
		return nil, err
	}
	f.Sight = sight
	rs, err := b.cfg.Desk.Requests(ctx, f)
	if err != nil {
		return nil, unavailable(err)
	}
	return b.asSeenBy(who, rs, glass), nil
}

// sight is what of requests a person may see now; nil = all. Who approves alone sees besides
// what waits as those see it whom policy asks, and what they approved so: nothing that is over.
// glass: the period in which they do, "" = none.
func (b *Broker) sight(ctx context.Context, who Principal) (s *Sight, glass string, err error) {
	g, _, err := b.OpenBreakGlass(ctx, who)
	if err != nil {
		return nil, "", err
	}
	if s = sightOf(who); s != nil {
		s.Glass = g.ID
	}
	return s, g.ID, nil
}

// asSeenBy are requests as who may see them, who approves alone in this period or in none.
func (b *Broker) asSeenBy(who Principal, rs []Request, glass string) []Request {
	for i := range rs {
		alone := glass != "" && (rs[i].State == RequestPending || slices.ContainsFunc(rs[i].Votes, func(v Vote) bool { return v.BreakGlass == glass }))
		rs[i].Match, rs[i].Votes = MatchCode(rs[i].ID), shownVotes(who, rs[i])
		if !alone && !ReadsWords(who, rs[i]) {
			rs[i].Reason = agenttext.Untrusted{}
		}
	}
	return rs
}

// ReadsWords reports whether who is shown what the agent wrote to a request: not somebody
// who has nothing but the right to look, because nobody knows what is in it.
func ReadsWords(who Principal, r Request) bool {
	return who.Has(RoleAuditor, RoleOperator) || who.Has(RoleApprover) && meet(r.Groups, who.Groups) || who.Has(RoleRunner) && r.Runner == who.ID
}

// waitingLook is how many requests that wait are looked at for what no index finds.
const waitingLook = 1000

// WaitPage is a page of what waits for people.
type WaitPage struct {
	Requests []Request
	Counts   map[int]int // by Rank: of all that waits, or with Looked of what was found
	Looked   int         // with something to look for: at how many that wait
	Short    bool        // and others wait after them
	Next     Place       // where the next page goes on; zero = there is none
}

// Waiting is what waits for people, of what who may see, and how much of it there is. The
// members Now and Sight of f are set here. mine: only what who has a say in. What no index
// finds is looked for among a bounded number: a text, a provider, what a limited approver
// may decide.
func (b *Broker) Waiting(ctx context.Context, who Principal, mine bool, f WaitFilter) (out WaitPage, err error) {
	if err := allow(who, certain, RoleApprover, RoleAuditor, RoleOperator, RoleRunner, RoleViewer); err != nil {
		return out, err
	}
	sight, glass, err := b.sight(ctx, who)
	if err != nil {
		return out, err
	}
	if f.Now, f.Sight = b.now(), sight; glass != "" {
		f.Sight = nil // all that waits
	}
	if mine {
		f.NotOf, f.Sight = who.names(), &Sight{Groups: who.Groups}
		if !who.Has(RoleApprover) {
			return out, nil
		}
	}
	if f.TaskID == "" {
		if f.Without, err = b.heldRoots(ctx); err != nil {
			return out, err
		}
	}
	limit := f.Limit
	if limit == 0 {
		limit = 50
	}
	var places []Place
	if limited := mine && who.Limited(); limited || f.Text != "" || f.Provider != "" {
		places, err = b.lookFor(ctx, who, limited, f, &out)
	} else {
		f.Limit = limit + 1
		places, err = b.inOrder(ctx, f, &out)
	}
	if err != nil {
		return out, err
	}
	if len(places) > limit {
		places = places[:limit]
		out.Next = places[limit-1]
	}
	out.Requests, err = b.atPlaces(ctx, who, places, glass)
	return out, err
}

// inOrder is what waits, as an index has it. Who has nothing waiting among much that waits
// for others is asked for it once, and not for the page as well.
func (b *Broker) inOrder(ctx context.Context, f WaitFilter, out *WaitPage) (_ []Place, err error) {
	if out.Counts, err = b.cfg.Desk.CountWaiting(ctx, f); err != nil {
		return nil, unavailable(err)
	}
	if len(out.Counts) == 0 {
		return nil, nil
	}
	found, err := b.cfg.Desk.Waiting(ctx, f)
	if err != nil {
		return nil, unavailable(err)
	}
	return found.Places, nil
}

// lookFor looks at what waits, for what no index finds: at the first, as long as the page
// is of those, so that each page counts the same.
func (b *Broker) lookFor(ctx context.Context, who Principal, limited bool, f WaitFilter, out *WaitPage) ([]Place, error) {
	after := f.After
	f.After, f.Limit = Place{}, waitingLook
	found, err := b.cfg.Desk.Waiting(ctx, f)
	if err == nil && after.ID != "" && found.Stop.ID != "" && !found.Stop.after(after) {
		f.After = after
		found, err = b.cfg.Desk.Waiting(ctx, f)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	places := found.Places
	if limited {
		if places, err = b.within(ctx, who, places); err != nil {
			return nil, err
		}
	}
	out.Looked, out.Short, out.Next, out.Counts = found.Looked, found.Stop.ID != "", found.Stop, map[int]int{}
	for _, p := range places {
		out.Counts[p.Rank]++
	}
	return slices.DeleteFunc(places, func(p Place) bool { return after.ID != "" && !p.after(after) }), nil
}

// within leaves those that a limited approver has a say in.
func (b *Broker) within(ctx context.Context, who Principal, places []Place) ([]Place, error) {
	if len(places) == 0 {
		return nil, nil
	}
	ms, err := b.cfg.Desk.Marks(ctx, RequestFilter{IDs: placeIDs(places), Page: Page{Limit: len(places)}})
	if err != nil {
		return nil, unavailable(err)
	}
	may := make(map[string]bool, len(ms))
	for _, m := range ms {
		may[m.ID] = m.For(who)
	}
	return slices.DeleteFunc(places, func(p Place) bool { return !may[p.ID] }), nil
}

// atPlaces reads the requests at these places, but for those that were answered meanwhile.
func (b *Broker) atPlaces(ctx context.Context, who Principal, places []Place, glass string) ([]Request, error) {
	if len(places) == 0 {
		return nil, nil
	}
	ids := placeIDs(places)
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{IDs: ids, State: RequestPending, Page: Page{Limit: len(ids)}})
	if err != nil {
		return nil, unavailable(err)
	}
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	slices.SortFunc(rs, func(a, b Request) int { return at[a.ID] - at[b.ID] })
	return b.asSeenBy(who, rs, glass), nil
}

func placeIDs(places []Place) []string {
	out := make([]string, 0, len(places))
	for _, p := range places {
		out = append(out, p.ID)
	}
	return out
}

// sightOf is what of requests a person may see; nil = all.
func sightOf(who Principal) *Sight {
	if who.Has(RoleAuditor, RoleOperator, RoleViewer) {
		return nil
	}
	s := &Sight{Runner: who.ID}
	if who.Has(RoleApprover) {
		s.Groups = who.Groups
	}
	return s
}

// Request shows one request.
func (b *Broker) Request(ctx context.Context, who Principal, id string) (Request, error) {
	if !validID(requestPrefix, id) {
		return Request{}, E(NotFound, "There is no such request.", nil)
	}
	rs, err := b.Requests(ctx, who, RequestFilter{IDs: []string{id}})
	if err != nil {
		return Request{}, err
	}
	if len(rs) == 0 {
		return Request{}, E(NotFound, "There is no such request.", nil)
	}
	return rs[0], nil
}

// hasAnswered reports whether who has given an answer, by any of their names.
func hasAnswered(who Principal, r Request) bool {
	return slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.SamePerson(Vote{By: who.ID, Also: who.Also}) })
}

// shownVotes hides the first answer from an approver who has not answered yet; from one
// who audits too, as far as they have a say in it. Who may only look sees answers when
// nobody waits for another one any more.
func shownVotes(who Principal, r Request) []Vote {
	looks := who.Has(RoleViewer) && !who.Has(RoleAuditor, RoleOperator)
	if r.State != RequestPending || !looks && (!who.Has(RoleApprover) || who.Has(RoleAuditor) && MayDecide(who, r) != nil) {
		return r.Votes
	}
	if hasAnswered(who, r) {
		return r.Votes
	}
	return nil
}
