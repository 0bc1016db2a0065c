package api

import (
	"bufio"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/web"
)

// export streams JSON lines. The audit log records every export, whole or not,
// as it does for the console. An export that fails closes the connection
// without the end of the response, so that half a file does not look complete.
func (au *auditAPI) export(c echo.Context, who broker.Principal, f broker.EntryFilter, kept bool) error {
	ctx := c.Request().Context()
	entries, err := au.b.WholeEntries(ctx, who, f)
	if err != nil {
		return err
	}
	// Before the response begins, while an error status can still be sent.
	if err := au.b.MayExport(ctx, who); err != nil {
		return err
	}
	points, err := au.exportedCheckpoints(ctx, who)
	if err != nil {
		return err
	}
	if kept {
		if _, err := au.b.Kept(ctx, who, nil); err != nil {
			return err
		}
	}
	next, stop := iter.Pull2(entries)
	defer stop()
	first, err, more := next()
	if err != nil {
		return unreadable(err)
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "application/jsonl")
	h.Set(echo.HeaderContentDisposition, `attachment; filename="ebb-audit.jsonl"`)
	h.Set("Cache-Control", "no-store")
	c.Response().WriteHeader(http.StatusOK)
	w := lineWriter{w: bufio.NewWriterSize(c.Response(), 32<<10), rc: http.NewResponseController(c.Response())}
	var answers []audit.Entry
	taken := report.Export{List: "audit", Format: "jsonl", Filter: exportFilter(c)}
	if line := filterOf(f).Line(); line != nil {
		w.line(line)
	}
	for e := first; more && err == nil; e, err, more = next() {
		w.line(e)
		taken.Rows++
		if kept && (e.Kind == audit.RequestVoted || e.Kind == audit.BreakGlassBegun) {
			answers = append(answers, audit.Brief(e))
		}
	}
	if err == nil {
		err = au.exportKept(ctx, who, &w, answers)
	}
	for _, p := range points {
		w.line(map[string]audit.Checkpoint{"checkpoint": p})
	}
	if ferr := w.finish(); err == nil {
		err = ferr
	}
	taken.Ended(err)
	if rerr := au.b.Exported(ctx, who, taken); err == nil {
		err = rerr // an export that could not be recorded is aborted
	}
	if err != nil {
		web.EventOf(c).Cause = err
		panic(http.ErrAbortHandler)
	}
	return nil
}

// filterOf returns the fields that can leave entries out of the middle of a
// chain. A time range is not one of them: the chain stays whole within it.
func filterOf(f broker.EntryFilter) audit.Filter {
	return audit.Filter{TaskID: f.TaskID, LeaseID: f.LeaseID, RequestID: f.RequestID, Kind: f.Kind, Actor: f.Actor}
}

// exportFilter returns the query parameters, for the audit entry of the export.
func exportFilter(c echo.Context) map[string]string {
	out := map[string]string{}
	for name, values := range c.QueryParams() {
		if name != "format" && len(values) == 1 {
			out[name] = values[0]
		}
	}
	return out
}

// exportKept writes the evidence kept for these answers, 50 answers at a time.
func (au *auditAPI) exportKept(ctx context.Context, who broker.Principal, w *lineWriter, answers []audit.Entry) error {
	for some := range slices.Chunk(answers, 50) {
		kept, err := au.b.Kept(ctx, who, some)
		if err != nil {
			return err
		}
		for _, k := range kept {
			w.line(map[string]audit.Kept{"kept": k})
		}
	}
	return nil
}

// exportedCheckpoints returns no checkpoints for a runner. It sees the entries
// of its own tasks only and cannot verify a chain with gaps.
func (au *auditAPI) exportedCheckpoints(ctx context.Context, who broker.Principal) ([]audit.Checkpoint, error) {
	if !who.Has(broker.RoleAuditor, broker.RoleOperator) {
		return nil, nil
	}
	return au.b.Checkpoints(ctx, who)
}

// lineWriter writes JSON lines and keeps the first error.
type lineWriter struct {
	w   *bufio.Writer
	rc  *http.ResponseController
	n   int
	err error
}

func (l *lineWriter) line(v any) {
	if l.err != nil {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		l.err = err
		return
	}
	if l.n%256 == 0 {
		// Every 256 lines get a new deadline, so that a slow reader can finish
		// and a dead connection ends.
		_ = l.rc.SetWriteDeadline(time.Now().Add(30 * time.Second))
	}
	l.n++
	_, l.err = l.w.Write(append(b, '\n'))
}

func (l *lineWriter) finish() error {
	if l.err == nil {
		l.err = l.w.Flush()
	}
	return l.err
}
