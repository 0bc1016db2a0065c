package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ebb/broker"
)

// Usage is what was issued since from and what was used of it, limit rows at most; zero
// values are the server's own.
func (o *Operator) Usage(ctx context.Context, from time.Time, by broker.UsageBy, limit int) (broker.Usage, error) {
	q := url.Values{}
	setTime(q, "from", from)
	set(q, "by", string(by))
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var out broker.Usage
	return out, o.do(ctx, http.MethodGet, "/v1/usage", q, nil, &out)
}
