package console

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

type failPage struct {
	Status   int
	Detail   string // what to do next
	Request  string // id of this request in ebb's log
	SignedIn bool
	Away     bool // requested at a host name that is not the console's: the page has no links
}

// fail shows an error. The page contains its public kind and sentence, never
// the cause.
func (pg *pages) fail(c echo.Context, err error) error {
	if c.Response().Committed {
		return err
	}
	e := broker.AsError(err)
	line := web.Lookup(e.Kind)
	ev := web.EventOf(c)
	ev.Kind, ev.Cause = e.Kind, e.Cause
	if line.Status == http.StatusServiceUnavailable || line.Status == http.StatusTooManyRequests {
		c.Response().Header().Set("Retry-After", strconv.Itoa(max(2, int(e.RetryAfter.Seconds()))))
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), sessionTime)
	defer cancel()
	v, verr := pg.visits.signedIn(ctx, c) // signedIn does not extend the session
	if verr != nil && !errors.Is(verr, errNobody) {
		v = nil
	}
	page := failPage{Status: line.Status, Detail: e.Public, Request: ev.ID, SignedIn: v != nil, Away: !pg.mux.AtPages(c.Request())}
	title := line.Title
	if page.Away {
		title = "The console has another address"
	}
	return pg.draw(c, line.Status, v, "fail", frame{Title: title}, page)
}
