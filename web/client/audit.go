package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strconv"

	"ebb/broker"
	"ebb/broker/audit"
)

const (
	typeLines = "application/jsonl"
	maxLine   = 4 << 20 // a checkpoint over very many writers
)

func entryQuery(f broker.EntryFilter) url.Values {
	q := url.Values{"format": {"jsonl"}}
	set(q, "task_id", f.TaskID)
	set(q, "lease_id", f.LeaseID)
	set(q, "request_id", f.RequestID)
	set(q, "kind", f.Kind)
	set(q, "actor", f.Actor)
	set(q, "writer", f.Writer)
	setTime(q, "from", f.From)
	setTime(q, "to", f.To)
	if f.AfterSeq > 0 {
		q.Set("after_seq", strconv.FormatInt(f.AfterSeq, 10))
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	if f.Desc {
		q.Set("order", "desc")
	}
	return q
}

// export opens the stream of lines. It has no timeout of its own: an export may
// take as long as ctx lets it.
func (o *Operator) export(ctx context.Context, f broker.EntryFilter) (io.ReadCloser, error) {
	resp, err := o.authorized(ctx, call{method: http.MethodGet, path: "/v1/audit", query: entryQuery(f)})
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != typeLines {
		_ = resp.Body.Close()
		return nil, badAnswer("is not an export; check the address of ebb", nil)
	}
	return resp.Body, nil
}

// Export copies the export that audit.Verify proves: JSON lines of entries, then
// checkpoints. An error means that it is incomplete.
func (o *Operator) Export(ctx context.Context, f broker.EntryFilter, w io.Writer) error {
	body, err := o.export(ctx, f)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(w, body); err != nil {
		return badAnswer("broke off: the export is incomplete", err)
	}
	return nil
}

// Audit yields the entries that match f, in the order f says. The sequence ends
// at the first error.
func (o *Operator) Audit(ctx context.Context, f broker.EntryFilter) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // so that a consumer who stops early ends the stream
		body, err := o.export(ctx, f)
		if err != nil {
			yield(audit.Entry{}, err)
			return
		}
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(make([]byte, 64<<10), maxLine)
		for lines.Scan() {
			if bytes.HasPrefix(lines.Bytes(), []byte(`{"checkpoint"`)) {
				continue
			}
			var e audit.Entry
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				yield(audit.Entry{}, badAnswer("holds a line that is no audit entry", err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				err = errors.New("a line is too long")
			}
			yield(audit.Entry{}, badAnswer("broke off", err))
		}
	}
}

// Checkpoints lists the signed checkpoints, oldest first.
func (o *Operator) Checkpoints(ctx context.Context) ([]audit.Checkpoint, error) {
	var out List[audit.Checkpoint]
	err := o.do(ctx, http.MethodGet, "/v1/audit/checkpoints", nil, nil, &out)
	return out.Items, err
}
