package api

import (
	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// breakGlasses lists break-glass periods, newest first. Starting, ending and
// reviewing a period is possible in the console only.
func (ra *requestAPI) breakGlasses(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.BreakGlass], error) {
	q := readQuery(c)
	f := broker.BreakGlassFilter{Person: q.text("person"), Unreviewed: q.oneOf("state", "unreviewed") != "", After: q.text("after"), Limit: q.number("limit", defaultPage, 1, 1000)}
	q.oneOf("order", "desc")
	if err := q.done(); err != nil {
		return wire.List[wire.BreakGlass]{}, err
	}
	list, err := ra.b.BreakGlassRecord(c.Request().Context(), who, f)
	return paged(list, f.Limit, func(g broker.BreakGlass) string { return g.ID }, wireBreakGlass), err
}
