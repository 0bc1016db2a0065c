package console

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/broker/audit"
	"ebb/web"
)

// export is a list on its way into a file, row by row. However it ends, that it was
// taken out is on the record. One that breaks off ends the connection without its end:
// half a list must not look like a whole one.
type export struct {
	broker.Export
	s    *Console
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
	exportRows  = 1000  // a page of an export
	exportLook  = 20000 // how many a page of it looks through
)

func (s *Console) newExport(c echo.Context, v *visit, list, format string, filter map[string]string, head []string) *export {
	return &export{Export: broker.Export{List: list, Format: format, Filter: filter}, s: s, c: c, v: v, head: head,
		rc: http.NewResponseController(c.Response())}
}

// open sends the head. Whatever can be refused was refused before.
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
		_ = x.csv.Write(x.head) // the first row that fails says it
	}
}

// row writes one: cells for a table, the value for lines.
func (x *export) row(cells func() []string, value any) error {
	if x.Rows%256 == 0 {
		// Each stretch has its own time: a slow reader may take long, a dead one may not.
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

// close ends it: err is why it is cut off, nil when it is whole.
func (x *export) close(err error) error {
	if x.csv.Flush(); err == nil {
		err = x.csv.Error()
	}
	if err == nil {
		err = x.w.Flush()
	}
	x.Ended(err)
	if rerr := x.s.b.Exported(x.c.Request().Context(), x.v.Principal, x.Export); err == nil {
		err = rerr // what is not on the record is not handed out whole
	}
	if err != nil {
		web.EventOf(x.c).Cause = err
		panic(http.ErrAbortHandler)
	}
	return nil
}

// writeASCII writes a line of JSON in ASCII, so that nothing in it draws otherwise than
// it is, wherever it is looked at.
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

// exportCredentials sends exactly the list that the same query draws.
func (s *Console) exportCredentials(format string) func(echo.Context, *visit) error {
	return func(c echo.Context, v *visit) error {
		a := readAsked(c)
		q := leaseQuery(a)
		if err := a.done(); err != nil {
			return err
		}
		q.Limit, q.Look = exportRows, exportLook
		ctx := c.Request().Context()
		// Who may look takes nothing out: what goes out is what the other roles give.
		who := v.Principal
		who.Roles = slices.DeleteFunc(slices.Clone(who.Roles), func(r broker.Role) bool { return r == broker.RoleViewer })
		page, err := s.b.LeaseList(ctx, who, q)
		if err != nil {
			return err
		}
		x := s.newExport(c, v, "credentials", format, a.filter(), credentialHead)
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
			if page, err = s.b.LeaseList(ctx, who, q); err != nil {
				return x.close(err)
			}
		}
	}
}
