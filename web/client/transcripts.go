package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"ebb/broker/transcript"
)

// Transcripts lists what was written down of requests through this ebb's egress, the newest first;
// zero members of f match everything.
func (o *Operator) Transcripts(ctx context.Context, f transcript.Filter) (List[transcript.Head], error) {
	q := url.Values{}
	set(q, "task_id", f.TaskID)
	set(q, "lease_id", f.LeaseID)
	set(q, "after", f.After)
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	var out List[transcript.Head]
	return out, o.do(ctx, http.MethodGet, "/v1/transcripts", q, nil, &out)
}

// Transcript reads one, which is put on the record.
func (o *Operator) Transcript(ctx context.Context, id string) (transcript.Transcript, error) {
	var out transcript.Transcript
	return out, o.do(ctx, http.MethodGet, "/v1/transcripts/"+url.PathEscape(id), nil, nil, &out)
}
