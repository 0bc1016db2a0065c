package broker

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"ebb/broker/audit"
)

// hidden are requests whose answers a person does not see before giving theirs.
type hidden map[string]bool

// hiddenFrom are those that wait for a second person who is who: somebody who decides and
// reads the record as well must not find the first answer there.
func (b *Broker) hiddenFrom(ctx context.Context, who Principal) (hidden, error) {
	if !who.Has(RoleApprover) {
		return nil, nil
	}
	var out hidden
	f := RequestFilter{State: RequestPending, Voted: true, Sight: &Sight{Groups: who.Groups}, Page: Page{Limit: refillPage}}
	for {
		rs, err := b.cfg.Desk.Requests(ctx, f)
		if err != nil {
			return nil, unavailable(err)
		}
		for _, r := range rs {
			if MayDecide(who, r) != nil || hasAnswered(who, r) {
				continue
			}
			if out == nil {
				out = hidden{}
			}
			out[r.ID] = true
		}
		if len(rs) < f.Page.Limit {
			return out, nil
		}
		f.Page.After = rs[len(rs)-1].ID
	}
}

// has reports whether e is an answer to one of them, also when it was given together with
// one: the entry names them all.
func (h hidden) has(e audit.Entry) bool {
	if len(h) == 0 || e.Kind != audit.RequestVoted {
		return false
	}
	var data struct {
		Together []string `json:"together"`
	}
	return h[e.RequestID] || json.Unmarshal(e.Data, &data) != nil || slices.ContainsFunc(data.Together, func(id string) bool { return h[id] })
}

// shownTo leaves out of entries what is hidden from who, or with gap not nil breaks off there
// with it. It looks what that is once the entries are being read, which is one view of the
// record: no answer in it is missed.
func (b *Broker) shownTo(ctx context.Context, who Principal, entries iter.Seq2[audit.Entry, error], gap error) iter.Seq2[audit.Entry, error] {
	if !who.Has(RoleApprover) {
		return entries
	}
	return func(yield func(audit.Entry, error) bool) {
		var h hidden
		looked := false
		for e, err := range entries {
			if err == nil && e.Kind == audit.RequestVoted && !looked {
				h, err = b.hiddenFrom(ctx, who)
				looked = true
			}
			if err != nil {
				yield(audit.Entry{}, err)
				return
			}
			switch {
			case !h.has(e):
				if !yield(e, nil) {
					return
				}
			case gap != nil:
				yield(audit.Entry{}, gap)
				return
			}
		}
	}
}

// MayExport refuses the record as a file to a person from whom an answer is hidden: it
// would have a gap, which nobody could tell from one that somebody made.
func (b *Broker) MayExport(ctx context.Context, who Principal) error {
	h, err := b.hiddenFrom(ctx, who)
	if err != nil {
		return err
	}
	if len(h) > 0 {
		return errGap
	}
	return nil
}

// errGap: who takes the record out as a file sees all of it, or gets none.
var errGap = E(Conflict, "An answer on the record is hidden from you, because a request waits for yours. Give it, or wait until the request has ended; an auditor who does not decide it can export now.", nil)

// WholeEntries is Entries for a file: where one would be left out, because the answer was
// given since MayExport, reading breaks off (Conflict).
func (b *Broker) WholeEntries(ctx context.Context, who Principal, f EntryFilter) (iter.Seq2[audit.Entry, error], error) {
	entries, err := b.entriesOf(ctx, who, f)
	if err != nil {
		return nil, err
	}
	return b.shownTo(ctx, who, entries, errGap), nil
}
