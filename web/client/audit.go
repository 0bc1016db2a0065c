package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"

	"ebb/broker"
	"ebb/broker/audit"
)

const (
	typeLines = "application/jsonl"
	pageSize  = 500
)

// errFilter refuses what the API cannot filter by: leaving it out would answer
// another question.
var errFilter = errors.New("client: the API does not filter entries by writer and seq")

func entryQuery(f broker.EntryFilter) (url.Values, error) {
	if f.Writer != "" || f.AfterSeq != 0 {
		return nil, errFilter
	}
	q := url.Values{}
	set(q, "task_id", f.TaskID)
	set(q, "lease_id", f.LeaseID)
	set(q, "request_id", f.RequestID)
	set(q, "kind", f.Kind)
	set(q, "actor", f.Actor)
	setTime(q, "from", f.From)
	setTime(q, "to", f.To)
	return q, nil
}

// Export copies the export that audit.Verify proves: JSON lines of entries, then
// checkpoints. Limit and Desc of f are ignored. It may take as long as ctx lets
// it. An error means that what was written is incomplete.
func (o *Operator) Export(ctx context.Context, f broker.EntryFilter, w io.Writer) error {
	return o.export(ctx, f, w, nil)
}

// ExportKept is Export with what was kept of people's answers: what they saw, and what a
// passkey signed. audit.VerifyKept proves it.
func (o *Operator) ExportKept(ctx context.Context, f broker.EntryFilter, w io.Writer) error {
	return o.export(ctx, f, w, url.Values{"kept": {"true"}})
}

func (o *Operator) export(ctx context.Context, f broker.EntryFilter, w io.Writer, more url.Values) error {
	q, err := entryQuery(f)
	if err != nil {
		return err
	}
	maps.Copy(q, more)
	q.Set("format", "jsonl")
	resp, err := o.authorized(ctx, call{method: http.MethodGet, path: "/v1/audit", query: q})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != typeLines {
		return badAnswer("is not an export; check the address of ebb", nil)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return badAnswer("broke off: the export is incomplete", err)
	}
	return nil
}

// Audit yields the entries that match f, page by page, in the order f says, at
// most f.Limit. The sequence ends at the first error.
func (o *Operator) Audit(ctx context.Context, f broker.EntryFilter) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		q, err := entryQuery(f)
		if err != nil {
			yield(audit.Entry{}, err)
			return
		}
		if f.Desc {
			q.Set("order", "desc")
		}
		for left := f.Limit; ; {
			size := pageSize
			if f.Limit > 0 {
				size = min(size, left)
			}
			q.Set("limit", strconv.Itoa(size))
			var page List[audit.Entry]
			if err := o.do(ctx, http.MethodGet, "/v1/audit", q, nil, &page); err != nil {
				yield(audit.Entry{}, err)
				return
			}
			for _, e := range page.Items {
				if !yield(e, nil) {
					return
				}
			}
			left -= len(page.Items)
			if page.Next == "" || len(page.Items) == 0 || page.Next == q.Get("after") || f.Limit > 0 && left <= 0 {
				return
			}
			q.Set("after", page.Next)
		}
	}
}

// Checkpoints lists the signed checkpoints, oldest first.
func (o *Operator) Checkpoints(ctx context.Context) ([]audit.Checkpoint, error) {
	var out List[audit.Checkpoint]
	err := o.do(ctx, http.MethodGet, "/v1/audit/checkpoints", nil, nil, &out)
	return out.Items, err
}
