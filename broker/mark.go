package broker

import (
	"context"
	"strconv"

	"ebb/scopes"
	"ebb/scopes/policy"
)

// Mark is a request that waits, as far as one must know it to tell people that it does.
type Mark struct {
	ID            string
	Owner, Runner string
	Scopes        scopes.Set
	Groups        []string
}

// MaxMarks is how many requests Marks tells apart.
const MaxMarks = 1000

// Marks are the requests that wait, newest first, at most MaxMarks. It asks nobody's
// rights, so that one look serves all who look: tell people only of what is For them.
func (b *Broker) Marks(ctx context.Context) ([]Mark, error) {
	held, err := b.heldRoots(ctx)
	if err != nil {
		return nil, err
	}
	ms, err := b.cfg.Desk.Marks(ctx, b.now(), held, MaxMarks)
	if err != nil {
		return nil, unavailable(err)
	}
	return ms, nil
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
