package api

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/scopes/nearest"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// auditAPI serves /v1 for the audit log.
type auditAPI struct {
	b       auditBroker
	clients *clientAuth
}

// auditBroker is the part of the broker that auditAPI calls.
type auditBroker interface {
	Entries(ctx context.Context, who broker.Principal, f broker.EntryFilter) (iter.Seq2[audit.Entry, error], error)
	WholeEntries(ctx context.Context, who broker.Principal, f broker.EntryFilter) (iter.Seq2[audit.Entry, error], error)
	MayExport(ctx context.Context, who broker.Principal) error
	Kept(ctx context.Context, who broker.Principal, entries []audit.Entry) ([]audit.Kept, error)
	Exported(ctx context.Context, who broker.Principal, x report.Export) error
	Checkpoints(ctx context.Context, who broker.Principal) ([]audit.Checkpoint, error)
}

func (au *auditAPI) checkpoints(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.Checkpoint], error) {
	list, err := au.b.Checkpoints(c.Request().Context(), who)
	if err != nil {
		return wire.List[wire.Checkpoint]{}, err
	}
	out := wire.List[wire.Checkpoint]{Items: make([]wire.Checkpoint, len(list))}
	for i, p := range list {
		if out.Items[i], err = wireCheckpoint(p); err != nil {
			return wire.List[wire.Checkpoint]{}, err
		}
	}
	return out, nil
}

// audit serves GET /v1/audit. It returns one page, or with format=jsonl all matching entries followed by the
// checkpoints, as 'ebb audit verify' reads them offline.
func (au *auditAPI) audit(c echo.Context) error {
	who, err := au.clients.authenticate(c)
	if err != nil {
		return err
	}
	q := readQuery(c)
	f := entryFilter(q)
	export := q.oneOf("format", "json", "jsonl") == "jsonl"
	kept := q.flag("kept")
	p := q.page()
	f.Desc = p.Desc
	if err := q.done(); err != nil {
		return err
	}
	if export {
		f.Desc = false
		return au.export(c, who, f, kept)
	}
	if kept {
		return malformed("kept requires format=jsonl.")
	}
	return au.auditPage(c, who, f, p)
}

func entryFilter(q *query) broker.EntryFilter {
	return broker.EntryFilter{
		TaskID: q.text("task_id"), LeaseID: q.text("lease_id"), RequestID: q.text("request_id"),
		Kind: q.auditKind(), Actor: q.text("actor"), From: q.time("from"), To: q.time("to"),
	}
}

// auditKind reads a kind of entries, or a prefix of kinds that ends in a dot. It refuses any other word; the
// error lists similar kinds, or all prefixes if no kind is similar.
func (q *query) auditKind() string {
	area := func(kind string) string { return kind[:strings.Index(kind, ".")+1] }
	v := q.text("kind")
	var near, areas []string
	for _, k := range audit.Kinds() {
		switch {
		case v == "" || v == k || v == area(k):
			return v
		case area(v) == area(k) || nearest.Of(v, []string{k}) != "":
			near = append(near, k)
		}
		areas = append(areas, area(k))
	}
	if near == nil {
		near = slices.Compact(areas) // kinds are sorted
	}
	q.fail("kind", broker.Quoted(v)+" is not a kind of audit entry. Use one of: "+strings.Join(near, ", "))
	return ""
}

func (au *auditAPI) auditPage(c echo.Context, who broker.Principal, f broker.EntryFilter, p broker.Page) error {
	after, err := parseEntryCursor(p.After)
	if err != nil {
		return err
	}
	after.bound(&f)
	entries, err := au.b.Entries(c.Request().Context(), who, f)
	if err != nil {
		return err
	}
	out := wire.List[wire.AuditEntry]{Items: make([]wire.AuditEntry, 0, p.Limit)}
	for e, err := range entries {
		if err != nil {
			return unreadable(err)
		}
		if !after.passed(e, f.Desc) {
			continue
		}
		item, err := wireAuditEntry(e)
		if err != nil {
			return err
		}
		if out.Items = append(out.Items, item); len(out.Items) == p.Limit {
			out.Next = cursorOf(e)
			break
		}
	}
	return web.WriteJSON(c, http.StatusOK, out)
}

func unreadable(err error) error {
	return &broker.Error{Kind: broker.Unavailable, Public: "The audit log cannot be read at the moment. Try again in 5 seconds.", Cause: err, RetryAfter: 5 * time.Second}
}

// entryCursor is the position of an entry in the order of the audit log: by time, then writer, then sequence.
type entryCursor struct {
	at     time.Time
	writer string
	seq    int64
}

func cursorOf(e audit.Entry) string {
	return strconv.FormatInt(e.At.UnixMilli(), 10) + "." + strconv.FormatInt(e.Seq, 10) + "." + e.Writer
}

func parseEntryCursor(s string) (entryCursor, error) {
	if s == "" {
		return entryCursor{}, nil
	}
	ms, rest, _ := strings.Cut(s, ".")
	seq, writer, _ := strings.Cut(rest, ".")
	at, err1 := strconv.ParseInt(ms, 10, 64)
	n, err2 := strconv.ParseInt(seq, 10, 64)
	if err1 != nil || err2 != nil || at <= 0 || n <= 0 || writer == "" {
		return entryCursor{}, malformed("The query parameter after is not a cursor of this list.")
	}
	return entryCursor{time.UnixMilli(at).UTC(), writer, n}, nil
}

// bound narrows the filter by the cursor's time, so that the store skips most of the entries that passed rejects.
func (k entryCursor) bound(f *broker.EntryFilter) {
	switch end := k.at.Add(time.Millisecond); {
	case k.writer == "":
	case f.Desc && (f.To.IsZero() || end.Before(f.To)):
		f.To = end
	case !f.Desc && k.at.After(f.From):
		f.From = k.at
	}
}

// passed reports whether e comes after the cursor.
func (k entryCursor) passed(e audit.Entry, desc bool) bool {
	if k.writer == "" {
		return true
	}
	order := e.At.Compare(k.at)
	if order == 0 {
		order = strings.Compare(e.Writer, k.writer)
	}
	if order == 0 {
		order = int(min(max(e.Seq-k.seq, -1), 1))
	}
	if desc {
		return order < 0
	}
	return order > 0
}

// wireAuditEntry converts through the entry's canonical JSON, which the hash
// covers, so that times and data keep their spelling.
func wireAuditEntry(e audit.Entry) (out wire.AuditEntry, err error) {
	err = canonical(e, &out)
	return out, err
}

// wireCheckpoint converts through the checkpoint's canonical JSON, which its signature covers.
func wireCheckpoint(c audit.Checkpoint) (out wire.Checkpoint, err error) {
	err = canonical(c, &out)
	return out, err
}
