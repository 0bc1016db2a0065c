package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ebb/broker"
	"ebb/scopes/policy"
)

// Explain asks how policy would decide; nothing is issued.
func (o *Operator) Explain(ctx context.Context, q policy.Query) (policy.Explanation, error) {
	in := struct {
		Query policy.Query `json:"query"`
	}{q}
	var out policy.Explanation
	return out, o.do(ctx, http.MethodPost, "/v1/policy/explain", nil, in, &out)
}

// PolicyInfo is the policy set in force.
type PolicyInfo struct {
	Version string       `json:"version"`
	Source  string       `json:"source"`  // starter, files or database
	Since   time.Time    `json:"since"`   // the process that answers decides by it
	Release int64        `json:"release"` // number under which it was published; 0 = it was not
	Author  string       `json:"author"`
	By      string       `json:"by"` // who published it
	Files   []PolicyFile `json:"files"`
}

// PolicyFile is one file of it.
type PolicyFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Policy names the policy set in force.
func (o *Operator) Policy(ctx context.Context) (PolicyInfo, error) {
	var out PolicyInfo
	return out, o.do(ctx, http.MethodGet, "/v1/policy", nil, nil, &out)
}

// Feed is one answer of the revocation feed.
type Feed struct {
	Events []broker.Event `json:"events"`
	Cursor string         `json:"cursor"`
	MaxAge int64          `json:"max_age_seconds"` // after this long without a newer answer, fail closed
}

// maxWait is the longest that ebb lets a call of the feed wait.
const maxWait = 25 * time.Second

// Revocations returns the events after cursor ("" = from the oldest kept),
// waiting up to wait, at most 25 s, for the first.
func (o *Operator) Revocations(ctx context.Context, cursor string, wait time.Duration) (Feed, error) {
	q := url.Values{}
	wait = min(wait, maxWait)
	set(q, "cursor", cursor)
	if wait > 0 {
		q.Set("wait_seconds", strconv.FormatInt(int64(wait/time.Second), 10))
	}
	var out Feed
	return out, o.doWait(ctx, http.MethodGet, "/v1/revocations", q, nil, &out, wait)
}
