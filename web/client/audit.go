package client

import (
	"context"
	"io"
	"iter"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ebb-broker/ebb/web/wire"
)

// AuditService reads the audit log.
type AuditService struct{ *session }

const (
	typeLines = "application/jsonl"
	pageSize  = 500
)

// EntryFilter selects audit entries. Zero members match every entry.
type EntryFilter struct {
	TaskID, LeaseID, RequestID string
	Kind                       string // exact, or a prefix that ends in "."
	Actor                      string
	From, To                   time.Time // in [From, To)
	Limit                      int       // entries in all; 0 = no limit
	Desc                       bool      // newest first
}

func entryQuery(f EntryFilter) url.Values {
	q := url.Values{}
	set(q, "task_id", f.TaskID)
	set(q, "lease_id", f.LeaseID)
	set(q, "request_id", f.RequestID)
	set(q, "kind", f.Kind)
	set(q, "actor", f.Actor)
	setTime(q, "from", f.From)
	setTime(q, "to", f.To)
	return q
}

// Export copies the export that "ebb audit verify" verifies: JSON lines of
// entries, then checkpoints. Limit and Desc of f are ignored. Only ctx limits
// its duration. After an error the written data is incomplete.
func (s *AuditService) Export(ctx context.Context, f EntryFilter, w io.Writer) error {
	return s.export(ctx, "/v1/audit", entryQuery(f), w, url.Values{"format": {"jsonl"}})
}

// ExportWithEvidence is Export with the evidence kept for people's answers: the pages
// that they saw, and the passkey signatures.
func (s *AuditService) ExportWithEvidence(ctx context.Context, f EntryFilter, w io.Writer) error {
	return s.export(ctx, "/v1/audit", entryQuery(f), w, url.Values{"format": {"jsonl"}, "kept": {"true"}})
}

// Proof copies a proof that the entries which match f are in the audit log, unaltered:
// JSON lines that "ebb audit verify" verifies. Limit and Desc of f are ignored.
func (s *AuditService) Proof(ctx context.Context, f EntryFilter, w io.Writer) error {
	return s.export(ctx, "/v1/audit/proof", entryQuery(f), w, nil)
}

// export copies JSON lines.
func (s *session) export(ctx context.Context, path string, q url.Values, w io.Writer, more url.Values) error {
	maps.Copy(q, more)
	resp, err := s.authorized(ctx, call{method: http.MethodGet, path: path, query: q})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != typeLines {
		return badAnswer("is not an export; check the URL of ebb", nil)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return badAnswer("broke off: the export is incomplete", err)
	}
	return nil
}

// Entries yields the entries that match f, page by page, in the order of f.Desc,
// at most f.Limit. The sequence ends at the first error.
func (s *AuditService) Entries(ctx context.Context, f EntryFilter) iter.Seq2[wire.AuditEntry, error] {
	return func(yield func(wire.AuditEntry, error) bool) {
		q := entryQuery(f)
		if f.Desc {
			q.Set("order", "desc")
		}
		for left := f.Limit; ; {
			size := pageSize
			if f.Limit > 0 {
				size = min(size, left)
			}
			q.Set("limit", strconv.Itoa(size))
			var page wire.List[wire.AuditEntry]
			if err := s.do(ctx, http.MethodGet, "/v1/audit", q, nil, &page); err != nil {
				yield(wire.AuditEntry{}, err)
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
func (s *AuditService) Checkpoints(ctx context.Context) ([]wire.Checkpoint, error) {
	var out wire.List[wire.Checkpoint]
	err := s.do(ctx, http.MethodGet, "/v1/audit/checkpoints", nil, nil, &out)
	return out.Items, err
}
