package console

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/core"
)

// auditPages serves the audit log, its exports and the transcripts.
type auditPages struct {
	b *core.Broker

	pages  *pages
	visits *visits
}

type auditPage struct {
	Filter  map[string]string
	Kinds   []string
	Entries []audit.Entry
	Address string
	CSV     string
	JSONL   string
	Kept    string // JSONL with the evidence kept for answers
	Pager   pager
	Narrow  string
	All     bool // the visitor may read chains and checkpoints
	Said    bool // the visitor may read transcripts
}

// entryKinds returns the accepted values of the kind filter: every kind, and
// every group prefix such as "lease.".
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

// audit lists the audit log.
func (ap *auditPages) audit(c echo.Context, v *visit) error {
	a := readAsked(c)
	q := entryQuery(a)
	after, before := a.cursor("after"), a.cursor("before")
	list := "audit?" + a.kept.Encode()
	if place, back := ap.pages.place(a, list, after, before); place != "" {
		q.Place, q.Back = entryPlace(place), back
	}
	if err := a.done(); err != nil {
		return err
	}
	page := auditPage{Filter: a.filter(), Said: ap.b.MayReadTranscripts(v.Principal) == nil, Kinds: entryKinds(), All: v.Has(broker.RoleAuditor, broker.RoleOperator), Address: address("/audit", a.kept.Encode()),
		CSV: address("/audit.csv", a.kept.Encode()), JSONL: address("/audit.jsonl", a.kept.Encode())}
	with := maps.Clone(a.kept)
	with.Set("kept", "true")
	page.Kept = address("/audit.jsonl", with.Encode())
	f := frame{Title: "Audit log", Nav: "/audit"}
	if !page.All && q.TaskID == "" && v.Has(readers...) {
		page.Narrow = "You can read the audit log of your own tasks only. Enter the id of a task, or open a task from the list of tasks."
		return ap.pages.draw(c, http.StatusOK, v, "audit", f, page)
	}
	slice, p, err := ap.entryPage(c, v, q, list, page.Address)
	if err != nil {
		return err
	}
	page.Entries, page.Pager = slice, p
	return ap.pages.draw(c, http.StatusOK, v, "audit", f, page)
}

// entryPage returns one page of entries and the links to the pages next to it.
func (ap *auditPages) entryPage(c echo.Context, v *visit, q broker.EntryQuery, list, at string) ([]audit.Entry, pager, error) {
	q.Limit, q.Look = listRows, listLook
	slice, err := ap.b.EntryList(c.Request().Context(), v.Principal, q)
	if err != nil {
		return nil, pager{}, err
	}
	in := paging{list: list, at: at, placed: q.Place.Writer != "", back: q.Back, more: slice.More, stop: entryPlaceText(slice.Stop)}
	if n := len(slice.Entries); n > 0 {
		first, last := slice.Entries[0], slice.Entries[n-1]
		in.first, in.last = entryPlaceText(broker.EntryPlace{At: first.At, Writer: first.Writer, Seq: first.Seq}), entryPlaceText(broker.EntryPlace{At: last.At, Writer: last.Writer, Seq: last.Seq})
	}
	p := ap.pages.pagerOf(in)
	p.Short, p.Look = slice.Short, q.Look
	if q.Oldest {
		p.Back, p.On = "Older", "Newer"
	}
	return slice.Entries, p, nil
}

func entryPlaceText(p broker.EntryPlace) string {
	return strconv.FormatInt(p.At.UnixMilli(), 10) + "." + strconv.FormatInt(p.Seq, 10) + "." + p.Writer
}

// entryPlace parses the text of entryPlaceText. The text comes from a signed
// cursor, so errors are ignored.
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

// exportAudit sends the filtered audit log, oldest entry first, as 'ebb audit
// verify' reads it. Without a filter the JSON lines end with the checkpoints.
func (ap *auditPages) exportAudit(format string) func(echo.Context, *visit) error {
	return func(c echo.Context, v *visit) error {
		a := readAsked(c)
		q := entryQuery(a)
		with := format == formatJSONL && a.oneOf("kept", "true") != ""
		if err := a.done(); err != nil {
			return err
		}
		// Before the response begins, while an error status can still be sent.
		if err := ap.b.MayExport(c.Request().Context(), v.Principal); err != nil {
			return err
		}
		if with {
			if _, err := ap.b.Kept(c.Request().Context(), v.Principal, nil); err != nil {
				return err
			}
		}
		q.Limit, q.Look, q.Oldest = exportRows, exportLook, true
		ctx := c.Request().Context()
		var points []audit.Checkpoint
		if format == formatJSONL && v.Has(broker.RoleAuditor, broker.RoleOperator) {
			var err error // read before the entries, so that no checkpoint is newer than the last entry
			if points, err = ap.b.Checkpoints(ctx, v.Principal); err != nil {
				return err
			}
		}
		page, err := ap.b.WholeEntryList(ctx, v.Principal, q)
		if err != nil {
			return err
		}
		x := ap.newExport(c, v, "audit", format, a.filter(), entryHead)
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
				if err := ap.exportKept(x, page.Entries); err != nil {
					return x.close(err)
				}
			}
			if !page.More {
				break
			}
			q.Place = page.Stop
			if page, err = ap.b.WholeEntryList(ctx, v.Principal, q); err != nil {
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

// filterOf returns the fields that can leave entries out of the middle of a
// chain. A time range is not one of them: the chain stays whole within it.
func filterOf(q broker.EntryQuery) audit.Filter {
	return audit.Filter{TaskID: q.TaskID, LeaseID: q.LeaseID, RequestID: q.RequestID, Kind: strings.Join(q.Kinds, " "), Actor: q.Actor}
}

// exportKept writes the evidence kept for the answers among these entries,
// after the entries.
func (ap *auditPages) exportKept(x *export, entries []audit.Entry) error {
	kept, err := ap.b.Kept(x.c.Request().Context(), x.v.Principal, entries)
	for _, k := range kept {
		if err == nil {
			err = writeASCII(x.w, map[string]audit.Kept{"kept": k})
		}
	}
	return err
}

// auditRoutes are the routes of the audit log and the transcripts.
func (ap *auditPages) auditRoutes() []route {
	return []route{
		ap.visits.page("/audit", ap.audit),
		ap.visits.page("/audit.csv", ap.exportAudit(formatCSV)),
		ap.visits.page("/audit.jsonl", ap.exportAudit(formatJSONL)),
		ap.visits.page("/audit/chains", ap.chains(false)),
		ap.visits.page("/audit/check", ap.chains(true)),
		ap.visits.page("/audit/:writer/:seq", ap.entry),
		ap.visits.page(transcriptsPath, ap.transcripts),
		ap.visits.page(transcriptsPath+".csv", ap.exportTranscripts(formatCSV)),
		ap.visits.page(transcriptsPath+".jsonl", ap.exportTranscripts(formatJSONL)),
		ap.visits.page(transcriptsPath+"/:id", ap.transcript),
	}
}
