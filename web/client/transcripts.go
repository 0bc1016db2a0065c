package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ebb-broker/ebb/web/wire"
)

// TranscriptsService reads recorded requests.
type TranscriptsService struct{ *session }

// TranscriptFilter selects transcripts. Zero members match every transcript.
type TranscriptFilter struct {
	TaskID, LeaseID string
	After           string // wire.List.Next of the page before; "" = the newest
	Limit           int    // transcripts of the page, 1 to 1000; 0 = 50
}

// List lists the transcripts of this ebb's egress, newest first. Zero
// members of f match every transcript.
func (s *TranscriptsService) List(ctx context.Context, f TranscriptFilter) (wire.List[wire.TranscriptHead], error) {
	q := url.Values{}
	set(q, "task_id", f.TaskID)
	set(q, "lease_id", f.LeaseID)
	set(q, "after", f.After)
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	var out wire.List[wire.TranscriptHead]
	return out, s.do(ctx, http.MethodGet, "/v1/transcripts", q, nil, &out)
}

// Get returns one transcript. The read is written to the audit log.
func (s *TranscriptsService) Get(ctx context.Context, id string) (wire.Transcript, error) {
	var out wire.Transcript
	return out, s.do(ctx, http.MethodGet, "/v1/transcripts/"+url.PathEscape(id), nil, nil, &out)
}
