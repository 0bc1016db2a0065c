package auditlog

import (
	"context"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

type auditPage struct {
	Form    *list.Query
	Period  list.Period
	Kinds   []kindGroup
	Sorts   []shell.Option
	Entries []audit.Entry
	Names   map[string]string // of the tasks of the entries, by id
	Views   list.ViewBar
	Address string
	CSV     string
	JSONL   string
	Kept    string // JSONL with the evidence kept for answers
	Proof   string // the proof of the entries that match
	Pager   list.Pager
	Narrow  string
	All     bool // the visitor may read chains and checkpoints
	Said    bool // the visitor may read transcripts
}

// kindGroup is a group of kinds in the menu of the filter.
type kindGroup struct {
	Prefix string // such as "lease.", which selects the whole group
	Label  string
	Kinds  []string
}

// groupLabels are the names of the groups, in the order of the menu.
var groupLabels = []struct{ prefix, label string }{
	{"request.", "Requests and answers"}, {"lease.", "Credentials"}, {"token.", "Refused tokens"}, {"task.", "Tasks"}, {"sandbox.", "Sandboxes"},
	{"egress.", "Requests through egress"}, {"box.", "Egress endpoints"}, {"breakglass.", "Break-glass"}, {"policy.", "Policy"},
	{"principal.", "Principals"}, {"session.", "Console sessions"}, {"passkey.", "Passkeys"}, {"push.", "Notifications in browsers"}, {"absence.", "Absences of approvers"}, {"secret.", "Secrets"}, {"record.", "Exports"},
	{"transcript.", "Transcripts"}, {"orphan.", "Orphans"}, {"key.", "Signing keys"}, {"broker.", "Processes"}, {"livestore.", "Live state"}, {"loss.", "Data loss"},
}

var entrySorts = []shell.Option{{Value: "newest", Label: "newest first"}, {Value: "oldest", Label: "oldest first"}}

// kindGroups returns the menu of the kind filter. Every kind is in one group.
func kindGroups() []kindGroup {
	var out []kindGroup
	for _, l := range groupLabels {
		g := kindGroup{Prefix: l.prefix, Label: l.label}
		for _, k := range audit.Kinds() {
			if strings.HasPrefix(k, l.prefix) {
				g.Kinds = append(g.Kinds, k)
			}
		}
		out = append(out, g)
	}
	return out
}

// entryKinds returns the accepted values of the kind filter: every kind, and
// every group prefix such as "lease.".
func entryKinds() []string {
	var out []string
	for _, g := range kindGroups() {
		out = append(append(out, g.Prefix), g.Kinds...)
	}
	return out
}

func entryQuery(c echo.Context, v *session.Visit, a *list.Query) (broker.EntryQuery, list.Period) {
	p := a.Period(shell.Zone(c), v.Now)
	q := broker.EntryQuery{Actor: a.Text("actor"), TaskID: a.Text("task"), LeaseID: a.Text("lease"), RequestID: a.Text("request"),
		From: p.From, To: p.To, Oldest: a.OneOf("sort", shell.Values(entrySorts)...) == "oldest"}
	if k := a.OneOf("kind", entryKinds()...); k != "" {
		q.Kinds = []string{k}
	}
	return q, p
}

// audit lists the audit log.
func (ps *Pages) audit(c echo.Context, v *session.Visit) error {
	a := list.ReadQuery(c)
	q, period := entryQuery(c, v, a)
	after, before := a.Cursor("after"), a.Cursor("before")
	listKey := "audit?" + a.Kept.Encode()
	if place, back := ps.Cursors.Place(a, listKey, after, before); place != "" {
		q.Place, q.Back = list.EntryPlace(place), back
	}
	wrong := a.Unread()
	page := auditPage{Form: a, Period: period, Said: ps.Broker.MayReadTranscripts(v.Principal) == nil, Kinds: kindGroups(), Sorts: entrySorts, All: v.Has(broker.RoleAuditor, broker.RoleOperator), Views: ps.Views.Bar(c, v, "/audit", a),
		CSV: list.Address("/audit.csv", a.Kept.Encode()), JSONL: list.Address("/audit.jsonl", a.Kept.Encode())}
	page.Address = page.Views.Address(a)
	with := maps.Clone(a.Kept)
	with.Set("kept", "true")
	page.Kept = list.Address("/audit.jsonl", with.Encode())
	page.Proof = list.Address("/audit.proof.jsonl", a.Kept.Encode())
	f := shell.Frame{Title: "Audit log", Nav: "/audit"}
	if wrong {
		return ps.Shell.Draw(c, http.StatusUnprocessableEntity, v, "audit", f, page)
	}
	if !page.All && q.TaskID == "" && v.Has(session.AuditReaders...) {
		page.Narrow = "You can read the audit log of your own tasks only. Enter the id of a task, or open a task from the list of tasks."
		return ps.Shell.Draw(c, http.StatusOK, v, "audit", f, page)
	}
	slice, p, err := ps.Entries.Page(c, v, q, listKey, page.Address)
	if err != nil {
		return err
	}
	page.Entries, page.Pager = slice, p
	if page.Names, err = ps.Entries.Names(c.Request().Context(), v.Principal, slice); err != nil {
		return err
	}
	return ps.Shell.Draw(c, http.StatusOK, v, "audit", f, page)
}

var entryHead = []string{"writer", "seq", "at", "kind", "actor", "task_id", "lease_id", "request_id", "data", "prev", "hash"}

func entryCells(e audit.Entry) []string {
	return []string{e.Writer, strconv.FormatInt(e.Seq, 10), e.At.UTC().Format("2006-01-02T15:04:05.000Z"), e.Kind, e.Actor, e.TaskID, e.LeaseID, e.RequestID, string(e.Data), e.Prev, e.Hash}
}

// exportAudit sends the filtered audit log, oldest entry first, as 'ebb audit
// verify' reads it. Without a filter the JSON lines end with the checkpoints.
func (ps *Pages) exportAudit(format string) func(echo.Context, *session.Visit) error {
	return func(c echo.Context, v *session.Visit) error {
		a := list.ReadQuery(c)
		q, _ := entryQuery(c, v, a)
		with := format == list.FormatJSONL && a.OneOf("kept", "true") != ""
		if err := a.Done(); err != nil {
			return err
		}
		// Before the response begins, while an error status can still be sent.
		if err := ps.Broker.MayExport(c.Request().Context(), v.Principal); err != nil {
			return err
		}
		if with {
			if _, err := ps.Broker.Kept(c.Request().Context(), v.Principal, nil); err != nil {
				return err
			}
		}
		q.Limit, q.Look, q.Oldest = list.ExportRows, list.ExportLook, true
		ctx := c.Request().Context()
		var points []audit.Checkpoint
		if format == list.FormatJSONL && v.Has(broker.RoleAuditor, broker.RoleOperator) {
			var err error // read before the entries, so that no checkpoint is newer than the last entry
			if points, err = ps.Broker.Checkpoints(ctx, v.Principal); err != nil {
				return err
			}
		}
		page, err := ps.Broker.WholeEntryList(ctx, v.Principal, q)
		if err != nil {
			return err
		}
		x := list.NewExport(ps.Broker, c, v, "audit", format, a.Filter(), entryHead)
		x.Open()
		if line := filterOf(q).Line(); line != nil && format == list.FormatJSONL {
			if err := x.Line(line); err != nil {
				return x.Close(err)
			}
		}
		for {
			for _, e := range page.Entries {
				if err := x.Row(func() []string { return entryCells(e) }, e); err != nil {
					return x.Close(err)
				}
			}
			if with {
				if err := ps.exportKept(ctx, x, v, page.Entries); err != nil {
					return x.Close(err)
				}
			}
			if !page.More {
				break
			}
			q.Place = page.Stop
			if page, err = ps.Broker.WholeEntryList(ctx, v.Principal, q); err != nil {
				return x.Close(err)
			}
		}
		for _, p := range points {
			if err := x.Line(map[string]audit.Checkpoint{"checkpoint": p}); err != nil {
				return x.Close(err)
			}
		}
		return x.Close(nil)
	}
}

// exportProof sends the entries that match the filter, with the proof that they
// are in the audit log, unaltered.
func (ps *Pages) exportProof(c echo.Context, v *session.Visit) error {
	a := list.ReadQuery(c)
	q, _ := entryQuery(c, v, a)
	if err := a.Done(); err != nil {
		return err
	}
	f := broker.EntryFilter{TaskID: q.TaskID, LeaseID: q.LeaseID, RequestID: q.RequestID, Kind: strings.Join(q.Kinds, " "), Actor: q.Actor, From: q.From, To: q.To}
	p, err := ps.Broker.ProveEntries(c.Request().Context(), v.Principal, f, a.Filter())
	if err != nil {
		return err
	}
	return list.NewExport(ps.Broker, c, v, "audit", list.FormatProof, a.Filter(), nil).Proof(p)
}

// filterOf returns the fields that can leave entries out of the middle of a
// chain. A time range is not one of them: the chain stays whole within it.
func filterOf(q broker.EntryQuery) audit.Filter {
	return audit.Filter{TaskID: q.TaskID, LeaseID: q.LeaseID, RequestID: q.RequestID, Kind: strings.Join(q.Kinds, " "), Actor: q.Actor}
}

// exportKept writes the evidence kept for the answers among these entries, after the entries.
func (ps *Pages) exportKept(ctx context.Context, x *list.Export, v *session.Visit, entries []audit.Entry) error {
	kept, err := ps.Broker.Kept(ctx, v.Principal, entries)
	for _, k := range kept {
		if err == nil {
			err = x.Line(map[string]audit.Kept{"kept": k})
		}
	}
	return err
}
