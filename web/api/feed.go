package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

// feedPage is a piece of the revocation feed.
type feedPage struct {
	Events []broker.Event `json:"events"`
	Cursor string         `json:"cursor"`          // ?cursor= of the next call
	MaxAge int64          `json:"max_age_seconds"` // a follower that has not polled for so long must refuse tokens
}

const (
	maxWait   = 25 // seconds; below the usual 30 s of proxies
	maxEvents = 1000
)

// anyWait is the largest wait_seconds that is a number of seconds at all; longer
// than maxWait is not waited.
const anyWait = 3600

// revocations is a long poll: the answer comes with the first event, or empty
// after wait_seconds.
func (a *API) revocations(c echo.Context, who broker.Principal, _ web.None) (feedPage, error) {
	q := readQuery(c)
	cursor := q.text("cursor")
	wait := time.Duration(min(q.number("wait_seconds", 0, 0, anyWait), maxWait)) * time.Second
	limit := q.number("limit", maxEvents, 1, maxEvents)
	if err := q.done(); err != nil {
		return feedPage{}, err
	}
	outlast(c, wait)
	events, next, err := a.b.Follow(c.Request().Context(), who, cursor, limit, wait)
	if events == nil {
		events = []broker.Event{}
	}
	return feedPage{Events: events, Cursor: next, MaxAge: int64(a.cfg.FeedMaxAge.Seconds())}, err
}

// outlast lets an answer wait for d: that is the route's own time, on top of what the
// listener allows.
func outlast(c echo.Context, d time.Duration) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(d + 15*time.Second)) // not every writer has one
}
