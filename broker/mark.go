package broker

import (
	"context"
	"strconv"
	"sync"
	"time"

	"ebb/scopes"
	"ebb/scopes/policy"
)

// Mark is a request, as far as one must know it to say whose it is.
type Mark struct {
	ID                   string
	Owner, Runner        string
	Scopes               scopes.Set
	Groups               []string
	State                RequestState
	CreatedAt, ExpiresAt time.Time
}

// MaxMarks is how many requests Marks tells apart.
const MaxMarks = 1000

// marks are those that waited when somebody looked last: of a request nothing that a Mark
// has but its state ever changes, and it is read once.
type marks struct {
	mu    sync.Mutex
	known map[string]Mark
}

// Marks are the requests that wait, newest first, at most MaxMarks. It asks nobody's
// rights, so that one look serves all who look: tell people only of what is For them.
func (b *Broker) Marks(ctx context.Context) ([]Mark, error) {
	held, err := b.heldRoots(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := b.cfg.Desk.NewestWaiting(ctx, b.now(), held, MaxMarks)
	if err != nil {
		return nil, unavailable(err)
	}
	b.marks.mu.Lock()
	defer b.marks.mu.Unlock()
	var unknown []string
	for _, id := range ids {
		if _, is := b.marks.known[id]; !is {
			unknown = append(unknown, id)
		}
	}
	now := map[string]Mark{}
	if len(unknown) > 0 {
		read, err := b.cfg.Desk.Marks(ctx, RequestFilter{IDs: unknown, Page: Page{Limit: len(unknown)}})
		if err != nil {
			return nil, unavailable(err)
		}
		for _, m := range read {
			now[m.ID] = m
		}
	}
	var out []Mark
	for _, id := range ids {
		m, is := now[id]
		if !is {
			m, is = b.marks.known[id]
		}
		if is {
			now[id], out = m, append(out, m)
		}
	}
	b.marks.known = now
	return out, nil
}

// For reports whether who has a say in the request.
func (m Mark) For(who Principal) bool {
	return MayDecide(who, Request{Owner: m.Owner, Runner: m.Runner, Scopes: m.Scopes, Approval: policy.Approval{Groups: m.Groups}}) == nil
}

// Newest names the newest entry of the record, "" when there is none: whoever follows a
// list learns by it that there may be more. Like Marks it serves all who look.
func (b *Broker) Newest(ctx context.Context) (string, error) {
	s, err := b.cfg.Journal.EntryList(ctx, EntryQuery{Limit: 1, Look: 2})
	if err != nil {
		return "", unavailable(err)
	}
	if len(s.Entries) == 0 {
		return "", nil
	}
	return s.Entries[0].Writer + "/" + strconv.FormatInt(s.Entries[0].Seq, 10), nil
}
