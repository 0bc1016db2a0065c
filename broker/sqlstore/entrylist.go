package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// entryWindow is the part of the audit log that a page reads; see leaseWindow.
type entryWindow struct {
	in, rest where
	order    string
}

// EntryList implements broker.Listing.
func (a *auditStore) EntryList(ctx context.Context, q broker.EntryQuery) (broker.EntrySlice, error) {
	if q.Limit < 1 || q.Limit > maxLimit || q.Look <= q.Limit || (q.FirstSeq != 0 || q.LastSeq != 0) && q.Writer == "" {
		return broker.EntrySlice{}, errors.New("entry list: the query needs a Limit of 1 to 1000, a Look above Limit, and a Writer when FirstSeq or LastSeq is set")
	}
	w := entriesWindow(q)
	look := q.Look
	if len(w.rest.conds) == 0 {
		look = q.Limit + 1
	}
	found, err := collect(ctx, a.engine.read(), w.text(look, q.Limit+1), append(slices.Clone(w.in.args), w.rest.args...), scanEntry)
	out := broker.EntrySlice{Entries: found}
	switch {
	case err != nil:
	case len(found) > q.Limit:
		out.Entries, out.More, out.Stop = found[:q.Limit], true, entryPlace(found[q.Limit-1])
	case len(w.rest.conds) > 0:
		var ends []audit.Entry
		ends, err = collect(ctx, a.engine.read(), "SELECT "+entryColumns+" FROM audit_entries"+w.in.String()+" ORDER BY "+w.order+" LIMIT 2 OFFSET "+strconv.Itoa(look-1), w.in.args, scanEntry)
		if len(ends) == 2 {
			out.Stop, out.More, out.Short = entryPlace(ends[0]), true, true
		}
	}
	if err != nil {
		return broker.EntrySlice{}, fmt.Errorf("entry list: %w", a.engine.explain(err))
	}
	if q.Back {
		slices.Reverse(out.Entries)
	}
	return out, nil
}

func entryPlace(e audit.Entry) broker.EntryPlace {
	return broker.EntryPlace{At: e.At, Writer: e.Writer, Seq: e.Seq}
}

func (w *entryWindow) text(look, limit int) string {
	return "SELECT " + entryColumns + " FROM (SELECT " + entryColumns + " FROM audit_entries" + w.in.String() + " ORDER BY " + w.order + " LIMIT " + strconv.Itoa(look) + ") e" +
		w.rest.String() + " ORDER BY " + w.order + " LIMIT " + strconv.Itoa(limit)
}

// entriesWindow chooses the index: the first applicable one in the order of fewest
// matches.
func entriesWindow(q broker.EntryQuery) *entryWindow {
	w := &entryWindow{}
	indexed := q.Writer != ""
	if indexed {
		w.in.add("writer = ? AND seq >= ? AND seq <= ?", q.Writer, q.FirstSeq, q.LastSeq)
	}
	for _, by := range [...]struct{ column, id string }{{"lease_id", q.LeaseID}, {"request_id", q.RequestID}, {"task_id", q.TaskID}} {
		switch {
		case by.id == "":
		case indexed:
			w.rest.equal(by.column, by.id)
		default:
			w.in.add(by.column+" = ? AND "+by.column+" <> ''", by.id) // the second condition matches the partial index
			indexed = true
		}
	}
	if len(q.Kinds) == 1 && !indexed && !strings.HasSuffix(q.Kinds[0], ".") && q.Kinds[0] != audit.LeaseIssued {
		w.in.add("kind = ? AND kind <> 'lease.issued'", q.Kinds[0])
	} else {
		w.kinds(q.Kinds)
	}
	w.rest.equal("actor", q.Actor)
	if !q.From.IsZero() {
		w.in.add("at >= ?", millis(q.From))
	}
	if !q.To.IsZero() {
		w.in.add("at < ?", millis(q.To))
	}
	op, dir := " < ", " DESC"
	if q.Oldest != q.Back {
		op, dir = " > ", ""
	}
	if p := q.Place; p.Writer != "" {
		w.in.add("(at, writer, seq)"+op+"(?, ?, ?)", millis(p.At), p.Writer, p.Seq)
	}
	w.order = "at" + dir + ", writer" + dir + ", seq" + dir
	return w
}

func (w *entryWindow) kinds(kinds []string) {
	if len(kinds) == 0 {
		return
	}
	var any where
	for _, k := range kinds {
		if strings.HasSuffix(k, ".") {
			any.add("substr(kind, 1, "+strconv.Itoa(len(k))+") = ?", k)
		} else {
			any.add("kind = ?", k)
		}
	}
	w.rest.add("("+strings.Join(any.conds, " OR ")+")", any.args...)
}
