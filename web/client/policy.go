package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ebb-broker/ebb/web/wire"
)

// Explain returns the decision that policy would make for a query. It issues
// nothing.
func (o *Operator) Explain(ctx context.Context, q wire.PolicyQuery) (wire.Explanation, error) {
	in := wire.ExplainBody{Query: q}
	var out wire.Explanation
	return out, o.do(ctx, http.MethodPost, "/v1/policy/explain", nil, in, &out)
}

// Policy returns the policy set in force.
func (o *Operator) Policy(ctx context.Context) (wire.Policy, error) {
	var out wire.Policy
	return out, o.do(ctx, http.MethodGet, "/v1/policy", nil, nil, &out)
}

// maxWait is ebb's limit for the wait of a revocation feed call.
const maxWait = 25 * time.Second

// Revocations returns the events after cursor ("" = from the oldest kept). It
// waits up to wait, at most 25 s, for the first event.
func (o *Operator) Revocations(ctx context.Context, cursor string, wait time.Duration) (wire.Feed, error) {
	q := url.Values{}
	wait = min(wait, maxWait)
	set(q, "cursor", cursor)
	if wait > 0 {
		q.Set("wait_seconds", strconv.FormatInt(int64(wait/time.Second), 10))
	}
	var out wire.Feed
	return out, o.doWait(ctx, http.MethodGet, "/v1/revocations", q, nil, &out, wait)
}
