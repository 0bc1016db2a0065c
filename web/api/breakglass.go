package api

import (
	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

// breakGlasses lists when somebody approved alone, newest first. Nothing of it is begun,
// ended or reviewed here: that is done in the console.
func (a *API) breakGlasses(c echo.Context, who broker.Principal, _ web.None) (page[broker.BreakGlass], error) {
	q := readQuery(c)
	f := broker.BreakGlassFilter{Person: q.text("person"), Unreviewed: q.oneOf("state", "unreviewed") != "", After: q.text("after"), Limit: q.number("limit", defaultPage, 1, 1000)}
	q.oneOf("order", "desc")
	if err := q.done(); err != nil {
		return page[broker.BreakGlass]{}, err
	}
	list, err := a.b.BreakGlassRecord(c.Request().Context(), who, f)
	return paged(list, f.Limit, func(g broker.BreakGlass) string { return g.ID }), err
}
