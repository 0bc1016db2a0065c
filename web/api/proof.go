package api

import (
	"bufio"
	"context"
	"iter"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/web"
)

// proofAPI serves /v1 for inclusion proofs, which 'ebb audit verify' verifies offline.
type proofAPI struct {
	b       proofBroker
	clients *clientAuth
}

// proofBroker is the part of the broker that proofAPI calls.
type proofBroker interface {
	ProveEntries(ctx context.Context, who broker.Principal, f broker.EntryFilter, stated map[string]string) (report.Proof, error)
	ProveLeases(ctx context.Context, who broker.Principal, q broker.LeaseQuery, stated map[string]string) (report.Proof, error)
	Exported(ctx context.Context, who broker.Principal, x report.Export) error
}

// entryProof serves GET /v1/audit/proof.
func (pa *proofAPI) entryProof(c echo.Context) error {
	who, err := pa.clients.authenticate(c)
	if err != nil {
		return err
	}
	q := readQuery(c)
	f := entryFilter(q)
	if err := q.done(); err != nil {
		return err
	}
	p, err := pa.b.ProveEntries(c.Request().Context(), who, f, exportFilter(c))
	if err != nil {
		return err
	}
	return pa.send(c, who, "audit", p)
}

// leaseProof serves GET /v1/leases/proof.
func (pa *proofAPI) leaseProof(c echo.Context) error {
	who, err := pa.clients.authenticate(c)
	if err != nil {
		return err
	}
	q := readQuery(c)
	f := broker.LeaseQuery{
		TaskID: q.text("task_id"), Owner: q.text("owner"), Sandbox: q.text("sandbox"), Provider: q.text("provider"), Resource: q.text("resource"),
		State: broker.LeaseState(q.oneOf("state", leaseStates...)),
		From:  q.time("from"), To: q.time("to"),
	}
	if err := q.done(); err != nil {
		return err
	}
	p, err := pa.b.ProveLeases(c.Request().Context(), who, f, exportFilter(c))
	if err != nil {
		return err
	}
	return pa.send(c, who, "credentials", p)
}

// send streams the lines of a proof. Its first line is read before the response
// begins, while an error status can still be sent.
func (pa *proofAPI) send(c echo.Context, who broker.Principal, list string, p report.Proof) error {
	next, stop := iter.Pull2(p.Lines)
	defer stop()
	line, err, more := next()
	if err != nil {
		return unreadable(err)
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "application/jsonl")
	h.Set(echo.HeaderContentDisposition, `attachment; filename="ebb-`+list+`-proof.jsonl"`)
	h.Set("Cache-Control", "no-store")
	c.Response().WriteHeader(http.StatusOK)
	w := lineWriter{w: bufio.NewWriterSize(c.Response(), 32<<10), rc: http.NewResponseController(c.Response())}
	for ; more && err == nil; line, err, more = next() {
		w.line(line)
	}
	if ferr := w.finish(); err == nil {
		err = ferr
	}
	taken := report.Export{List: list, Format: "proof.jsonl", Filter: exportFilter(c), Rows: p.Entries}
	taken.Ended(err)
	if rerr := pa.b.Exported(c.Request().Context(), who, taken); err == nil {
		err = rerr // an export that could not be recorded is aborted
	}
	if err != nil {
		web.EventOf(c).Cause = err
		panic(http.ErrAbortHandler)
	}
	return nil
}
