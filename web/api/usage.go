package api

import (
	"cmp"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

// usage is what was issued and what was used of it, the first rows of it.
func (a *API) usage(c echo.Context, who broker.Principal, _ web.None) (broker.Usage, error) {
	q := readQuery(c)
	from := q.time("from")
	by := broker.UsageBy(cmp.Or(q.oneOf("by", string(broker.UsageByScope), string(broker.UsageByOwner), string(broker.UsageByTask)), string(broker.UsageByScope)))
	limit := q.number("limit", defaultPage, 1, broker.UsageRows)
	if err := q.done(); err != nil {
		return broker.Usage{}, err
	}
	u, err := a.b.Usage(c.Request().Context(), who, from, by)
	if err != nil {
		return broker.Usage{}, err
	}
	return u.First(limit), nil
}
