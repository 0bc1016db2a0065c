package console

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/audit"
)

type auditPage struct {
	Filter  map[string]string
	Kinds   []string
	Entries []audit.Entry
	Address string
	CSV     string
	JSONL   string
	Kept    string // JSONL with what was kept of answers
	Pager   pager
	Narrow  string
	All     bool // who looks sees the chains too
	Said    bool // and what was written down of requests
}

// entryKinds is what the kind of a filter can be: each kind, and what begins alike.
func entryKinds() []string {
	out := audit.Kinds()
	for _, k := range audit.Kinds() {
		group, _, _ := strings.Cut(k, ".")
		out = append(out, group+".")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func entryQuery(a *asked) broker.EntryQuery {
	q := broker.EntryQuery{Actor: a.text("actor"), TaskID: a.text("task"), LeaseID: a.text("lease"), RequestID: a.text("request"),
		From: a.moment("from"), To: a.moment("to"), Oldest: a.oneOf("sort", "newest", "oldest") == "oldest"}
	if k := a.oneOf("kind", entryKinds()...); k != "" {
		q.Kinds = []string{k}
	}
	return q
}

// audit lists the record.
func (s *Console) audit(c echo.Context, v *visit) error {
	a := readAsked(c)
	q := entryQuery(a)
	after, before := a.cursor("after"), a.cursor("before")
	list := "audit?" + a.kept.Encode()
	if place, back := s.place(a, list, after, before); place != "" {
		q.Place, q.Back = entryPlace(place), back
	}
	if err := a.done(); err != nil {
		return err
	}
	page := auditPage{Filter: a.filter(), Said: s.b.MayReadTranscripts(v.Principal) == nil, Kinds: entryKinds(), All: v.Has(broker.RoleAuditor, broker.RoleOperator), Address: address("/audit", a.kept.Encode()),
		CSV: address("/audit.csv", a.kept.Encode()), JSONL: address("/audit.jsonl", a.kept.Encode())}
	with := maps.Clone(a.kept)
	with.Set("kept", "true")
	page.Kept = address("/audit.jsonl", with.Encode())
	f := frame{Title: "Record", Nav: "/audit"}
	if !page.All && q.TaskID == "" && v.Has(readers...) {
		page.Narrow = "You see what is on the record about your own tasks. Name one of them, or open it from the list of tasks."
		return s.draw(c, http.StatusOK, v, "audit", f, page)
	}
	slice, p, err := s.entryPage(c, v, q, list, page.Address)
	if err != nil {
		return err
	}
	page.Entries, page.Pager = slice, p
	return s.draw(c, http.StatusOK, v, "audit", f, page)
}

// entryPage is one page of entries, and what is beside it.
func (s *Console) entryPage(c echo.Context, v *visit, q broker.EntryQuery, list, at string) ([]audit.Entry, pager, error) {
	q.Limit, q.Look = listRows, listLook
	slice, err := s.b.EntryList(c.Request().Context(), v.Principal, q)
	if err != nil {
		return nil, pager{}, err
	}
	in := paging{list: list, at: at, placed: q.Place.Writer != "", back: q.Back, more: slice.More, stop: entryPlaceText(slice.Stop)}
	if n := len(slice.Entries); n > 0 {
		first, last := slice.Entries[0], slice.Entries[n-1]
		in.first, in.last = entryPlaceText(broker.EntryPlace{At: first.At, Writer: first.Writer, Seq: first.Seq}), entryPlaceText(broker.EntryPlace{At: last.At, Writer: last.Writer, Seq: last.Seq})
	}
	p := s.pagerOf(in)
	p.Short, p.Look = slice.Short, q.Look
	if q.Oldest {
		p.Back, p.On = "Older", "Newer"
	}
	return slice.Entries, p, nil
}

func entryPlaceText(p broker.EntryPlace) string {
	return strconv.FormatInt(p.At.UnixMilli(), 10) + "." + strconv.FormatInt(p.Seq, 10) + "." + p.Writer
}

// entryPlace is the inverse, of what was signed.
func entryPlace(s string) broker.EntryPlace {
	at, rest, _ := strings.Cut(s, ".")
	seq, writer, _ := strings.Cut(rest, ".")
	ms, _ := strconv.ParseInt(at, 10, 64)
	n, _ := strconv.ParseInt(seq, 10, 64)
	return broker.EntryPlace{At: time.UnixMilli(ms).UTC(), Writer: writer, Seq: n}
}

var entryHead = []string{"writer", "seq", "at", "kind", "actor", "task_id", "lease_id", "request_id", "data", "prev", "hash"}

func entryCells(e audit.Entry) []string {
	return []string{e.Writer, strconv.FormatInt(e.Seq, 10), e.At.UTC().Format("2006-01-02T15:04:05.000Z"), e.Kind, e.Actor, e.TaskID, e.LeaseID, e.RequestID, string(e.Data), e.Prev, e.Hash}
}

// exportAudit sends the filtered record, oldest first, as it is verified; without a
// filter the JSON lines end with the checkpoints.
func (s *Console) exportAudit(format string) func(echo.Context, *visit) error {
	return func(c echo.Context, v *visit) error {
		a := readAsked(c)
		q := entryQuery(a)
		with := format == formatJSONL && a.oneOf("kept", "true") != ""
		if err := a.done(); err != nil {
			return err
		}
		// Asked first, because it can still be refused.
		if err := s.b.MayExport(c.Request().Context(), v.Principal); err != nil {
			return err
		}
		if with {
			if _, err := s.b.Kept(c.Request().Context(), v.Principal, nil); err != nil {
				return err
			}
		}
		q.Limit, q.Look, q.Oldest = exportRows, exportLook, true
		ctx := c.Request().Context()
		var points []audit.Checkpoint
		if format == formatJSONL && v.Has(broker.RoleAuditor, broker.RoleOperator) {
			var err error // before the entries, or one may be ahead of them
			if points, err = s.b.Checkpoints(ctx, v.Principal); err != nil {
				return err
			}
		}
		page, err := s.b.WholeEntryList(ctx, v.Principal, q)
		if err != nil {
			return err
		}
		x := s.newExport(c, v, "audit", format, a.filter(), entryHead)
		x.open()
		if line := filterOf(q).Line(); line != nil && format == formatJSONL {
			if err := writeASCII(x.w, line); err != nil {
				return x.close(err)
			}
		}
		for {
			for _, e := range page.Entries {
				if err := x.row(func() []string { return entryCells(e) }, e); err != nil {
					return x.close(err)
				}
			}
			if with {
				if err := s.exportKept(x, page.Entries); err != nil {
					return x.close(err)
				}
			}
			if !page.More {
				break
			}
			q.Place = page.Stop
			if page, err = s.b.WholeEntryList(ctx, v.Principal, q); err != nil {
				return x.close(err)
			}
		}
		for _, p := range points {
			if err := writeASCII(x.w, map[string]audit.Checkpoint{"checkpoint": p}); err != nil {
				return x.close(err)
			}
		}
		return x.close(nil)
	}
}

// filterOf is what leaves entries out of an export. A time alone leaves a chain whole in between.
func filterOf(q broker.EntryQuery) audit.Filter {
	return audit.Filter{TaskID: q.TaskID, LeaseID: q.LeaseID, RequestID: q.RequestID, Kind: strings.Join(q.Kinds, " "), Actor: q.Actor}
}

// exportKept sends what was kept with the answers among these entries, after them.
func (s *Console) exportKept(x *export, entries []audit.Entry) error {
	kept, err := s.b.Kept(x.c.Request().Context(), x.v.Principal, entries)
	for _, k := range kept {
		if err == nil {
			err = writeASCII(x.w, map[string]audit.Kept{"kept": k})
		}
	}
	return err
}
