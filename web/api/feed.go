package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

const (
	maxWait   = 25 // seconds; below the usual 30 s of proxies
	maxEvents = 1000
)

// anyWait is the largest accepted wait_seconds. A value above maxWait is
// reduced to maxWait.
const anyWait = 3600

// revocations serves a long poll: the response comes with the first event, or
// empty after wait_seconds.
func (la *leaseAPI) revocations(c echo.Context, who broker.Principal, _ web.None) (wire.Feed, error) {
	q := readQuery(c)
	cursor := q.text("cursor")
	wait := time.Duration(min(q.number("wait_seconds", 0, 0, anyWait), maxWait)) * time.Second
	limit := q.number("limit", maxEvents, 1, maxEvents)
	if err := q.done(); err != nil {
		return wire.Feed{}, err
	}
	outlast(c, wait)
	events, next, err := la.b.Follow(c.Request().Context(), who, cursor, limit, wait)
	page := wire.Feed{Events: each(events, wireEvent), Cursor: next, MaxAge: int64(la.feedMaxAge.Seconds())}
	if events == nil {
		page.Events = []wire.Event{}
	}
	if !who.HearsAll() {
		page.Audiences = who.Audiences
	}
	return page, err
}

// outlast extends the write deadline of the response to d plus 15 s.
func outlast(c echo.Context, d time.Duration) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(d + 15*time.Second)) // a writer without deadlines, as in tests, returns an error
}
