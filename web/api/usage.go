package api

import (
	"cmp"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
	"github.com/labstack/echo/v4"
)

// usage returns the first rows of the summary of issued and used credentials.
func (la *leaseAPI) usage(c echo.Context, who broker.Principal, _ web.None) (wire.Usage, error) {
	q := readQuery(c)
	from := q.time("from")
	by := broker.UsageBy(cmp.Or(q.oneOf("by", string(report.UsageByScope), string(report.UsageByOwner), string(report.UsageByTask)), string(report.UsageByScope)))
	limit := q.number("limit", defaultPage, 1, report.UsageRows)
	if err := q.done(); err != nil {
		return wire.Usage{}, err
	}
	u, err := la.b.Usage(c.Request().Context(), who, from, by)
	if err != nil {
		return wire.Usage{}, err
	}
	return wireUsage(u.First(limit)), nil
}
