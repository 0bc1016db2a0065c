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

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/web"
)

// export streams JSON lines. An export that breaks off ends the connection
// without its end: half a record must not look like a whole one. However it ends, that it
// was taken out is on the record, as it is of the console's.
func (a *API) export(c echo.Context, who broker.Principal, f broker.EntryFilter, kept bool) error {
	ctx := c.Request().Context()
	entries, err := a.b.WholeEntries(ctx, who, f)
	if err != nil {
		return err
	}
	// Asked first, because it can still be refused.
	if err := a.b.MayExport(ctx, who); err != nil {
		return err
	}
	points, err := a.exportedCheckpoints(ctx, who)
	if err != nil {
		return err
	}
	if kept {
		if _, err := a.b.Kept(ctx, who, nil); err != nil {
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
	taken := broker.Export{List: "audit", Format: "jsonl", Filter: exportFilter(c)}
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
		err = a.exportKept(ctx, who, &w, answers)
	}
	for _, p := range points {
		w.line(map[string]audit.Checkpoint{"checkpoint": p})
	}
	if ferr := w.finish(); err == nil {
		err = ferr
	}
	taken.Ended(err)
	if rerr := a.b.Exported(ctx, who, taken); err == nil {
		err = rerr // what is not on the record is not handed out whole
	}
	if err != nil {
		web.EventOf(c).Cause = err
		panic(http.ErrAbortHandler)
	}
	return nil
}

// filterOf is what leaves entries out of an export. A time alone leaves a chain whole in between.
func filterOf(f broker.EntryFilter) audit.Filter {
	return audit.Filter{TaskID: f.TaskID, LeaseID: f.LeaseID, RequestID: f.RequestID, Kind: f.Kind, Actor: f.Actor}
}

// exportFilter is what was asked for, as it goes on the record.
func exportFilter(c echo.Context) map[string]string {
	out := map[string]string{}
	for name, values := range c.QueryParams() {
		if name != "format" && len(values) == 1 {
			out[name] = values[0]
		}
	}
	return out
}

// exportKept writes what was kept of these answers, a part at a time.
func (a *API) exportKept(ctx context.Context, who broker.Principal, w *lineWriter, answers []audit.Entry) error {
	for some := range slices.Chunk(answers, 50) {
		kept, err := a.b.Kept(ctx, who, some)
		if err != nil {
			return err
		}
		for _, k := range kept {
			w.line(map[string]audit.Kept{"kept": k})
		}
	}
	return nil
}

// exportedCheckpoints are left out for a runner, who sees entries of its own
// task alone and cannot check a chain with gaps.
func (a *API) exportedCheckpoints(ctx context.Context, who broker.Principal) ([]audit.Checkpoint, error) {
	if !who.Has(broker.RoleAuditor, broker.RoleOperator) {
		return nil, nil
	}
	return a.b.Checkpoints(ctx, who)
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
		// Each stretch of lines has its own time: a slow reader may take long, a
		// dead one may not.
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
