package client

import (
	"context"
	"net/http"

	"ebb/broker"
)

// BreakGlasses lists when somebody approved alone, newest first, for auditors and operators. Of f,
// Person, Unreviewed, After and Limit are sent.
func (o *Operator) BreakGlasses(ctx context.Context, f broker.BreakGlassFilter) (List[broker.BreakGlass], error) {
	q := pageQuery(broker.Page{After: f.After, Limit: f.Limit, Desc: true})
	set(q, "person", f.Person)
	if f.Unreviewed {
		q.Set("state", "unreviewed")
	}
	var out List[broker.BreakGlass]
	return out, o.do(ctx, http.MethodGet, "/v1/break-glass", q, nil, &out)
}
