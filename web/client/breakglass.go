package client

import (
	"context"
	"net/http"

	"github.com/ebb-broker/ebb/web/wire"
)

// BreakGlassService reads break-glass periods.
type BreakGlassService struct{ *session }

// BreakGlassFilter selects break-glass periods. Zero members match every period.
type BreakGlassFilter struct {
	Person     string
	Unreviewed bool   // only periods without a review
	After      string // wire.List.Next of the page before; "" = the newest
	Limit      int    // periods of the page, 1 to 1000; 0 = 50
}

// List lists break-glass periods, newest first, for auditors and operators.
func (s *BreakGlassService) List(ctx context.Context, f BreakGlassFilter) (wire.List[wire.BreakGlass], error) {
	q := pageQuery(Page{After: f.After, Limit: f.Limit, Desc: true})
	set(q, "person", f.Person)
	if f.Unreviewed {
		q.Set("state", "unreviewed")
	}
	var out wire.List[wire.BreakGlass]
	return out, s.do(ctx, http.MethodGet, "/v1/break-glass", q, nil, &out)
}
