package console

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/web"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
)

// export writes a list to the response, row by row. The audit log records every
// export, whole or not. An export that fails closes the connection without the
// end of the response, so that half a list does not look complete.
type export struct {
	report.Export
	s    *auditPages
	c    echo.Context
	v    *visit
	w    *bufio.Writer
	csv  *csv.Writer
	rc   *http.ResponseController
	head []string
}

const (
	formatCSV   = "csv"
	formatJSONL = "jsonl"
	exportRows  = 1000  // rows read from the broker at once
	exportLook  = 20000 // rows scanned for one such page
)

func (ap *auditPages) newExport(c echo.Context, v *visit, list, format string, filter map[string]string, head []string) *export {
	return &export{Export: report.Export{List: list, Format: format, Filter: filter}, s: ap, c: c, v: v, head: head,
		rc: http.NewResponseController(c.Response())}
}

// open sends the headers. All checks that can refuse the export come before it.
func (x *export) open() {
	h := x.c.Response().Header()
	kind := "application/jsonl"
	if x.Format == formatCSV {
		kind = "text/csv; charset=utf-8; header=present"
	}
	h.Set(echo.HeaderContentType, kind)
	h.Set(echo.HeaderContentDisposition, `attachment; filename="ebb-`+x.List+"-"+x.v.now.UTC().Format("20060102T150405Z")+"."+x.Format+`"`)
	x.c.Response().WriteHeader(http.StatusOK)
	x.w = bufio.NewWriterSize(x.c.Response(), 32<<10)
	if x.csv = csv.NewWriter(x.w); x.Format == formatCSV {
		_ = x.csv.Write(x.head) // an error shows at the next row
	}
}

// row writes one row: the cells for CSV, the value for JSON lines.
func (x *export) row(cells func() []string, value any) error {
	if x.Rows%256 == 0 {
		// Every 256 rows get a new deadline, so that a slow reader can finish
		// and a dead connection ends.
		_ = x.rc.SetWriteDeadline(time.Now().Add(30 * time.Second))
	}
	if x.Format == formatCSV {
		safe := cells()
		for i, cell := range safe {
			safe[i] = agenttext.CSVCell(agenttext.Name(cell))
		}
		if err := x.csv.Write(safe); err != nil {
			return err
		}
	} else if err := writeASCII(x.w, value); err != nil {
		return err
	}
	x.Rows++
	return nil
}

// close ends the export. A non-nil err aborts the response.
func (x *export) close(err error) error {
	if x.csv.Flush(); err == nil {
		err = x.csv.Error()
	}
	if err == nil {
		err = x.w.Flush()
	}
	x.Ended(err)
	if rerr := x.s.b.Exported(x.c.Request().Context(), x.v.Principal, x.Export); err == nil {
		err = rerr // an export that could not be recorded is aborted
	}
	if err != nil {
		web.EventOf(x.c).Cause = err
		panic(http.ErrAbortHandler)
	}
	return nil
}

// writeASCII writes a line of JSON in ASCII, so that every viewer shows the
// same characters.
func writeASCII(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(audit.ASCII(b), '\n'))
	return err
}

var credentialHead = []string{"id", "state", "issued_at", "expires_at", "refused_here_at", "revoked_by", "cause", "provider", "scope", "resource", "revocability", "bound_seconds",
	"accepted_by_provider_at", "dead_at_provider_at", "proof", "attempts", "last_error", "task_id", "sandbox", "owner", "tool", "rule", "request_id", "parent_id", "txn"}

func credentialCells(l broker.Lease) []string {
	stamp := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	u := broker.Upstream{}
	if l.Upstream != nil {
		u = *l.Upstream
	}
	return []string{l.ID, string(l.State), stamp(l.IssuedAt), stamp(l.ExpiresAt), stamp(l.RevokedAt), l.RevokedBy, string(l.Cause), l.Provider, l.Scopes.String(), l.Resource, string(l.Class),
		strconv.FormatInt(int64(u.Bound), 10), stamp(u.AcceptedAt), stamp(u.DeadAt), string(u.Proof), strconv.Itoa(u.Attempts), u.LastError, l.TaskID, l.Sandbox, l.Owner, l.Tool, l.Rule, l.RequestID, l.ParentID, l.Txn}
}

// exportCredentials exports the list that the page shows for the same query.
func (ap *auditPages) exportCredentials(format string) func(echo.Context, *visit) error {
	return func(c echo.Context, v *visit) error {
		a := readAsked(c)
		q := leaseQuery(a)
		if err := a.done(); err != nil {
			return err
		}
		q.Limit, q.Look = exportRows, exportLook
		ctx := c.Request().Context()
		// The viewer role may not export: the export contains what the other
		// roles may read.
		who := v.Principal
		who.Roles = slices.DeleteFunc(slices.Clone(who.Roles), func(r broker.Role) bool { return r == broker.RoleViewer })
		page, err := ap.b.LeaseList(ctx, who, q)
		if err != nil {
			return err
		}
		x := ap.newExport(c, v, "credentials", format, a.filter(), credentialHead)
		x.open()
		for {
			for _, l := range page.Leases {
				if err := x.row(func() []string { return credentialCells(l) }, l); err != nil {
					return x.close(err)
				}
			}
			if !page.More {
				return x.close(nil)
			}
			q.Place = page.Stop
			if page, err = ap.b.LeaseList(ctx, who, q); err != nil {
				return x.close(err)
			}
		}
	}
}
