package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ebb-broker/ebb/web/wire"
)

// Usage returns the summary of issued and used credentials since from, at most
// limit rows. Zero values mean the server's defaults.
func (o *Operator) Usage(ctx context.Context, from time.Time, by wire.UsageBy, limit int) (wire.Usage, error) {
	q := url.Values{}
	setTime(q, "from", from)
	set(q, "by", string(by))
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var out wire.Usage
	return out, o.do(ctx, http.MethodGet, "/v1/usage", q, nil, &out)
}
