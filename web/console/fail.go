package console

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

type failPage struct {
	Status   int
	Detail   string // what to do next
	Request  string // id of this request in ebb's log
	SignedIn bool
	Away     bool // asked by a name that is not the console's: nothing here leads on
}

// fail draws an error. What it tells is public: kind and sentence, never the cause.
func (s *Console) fail(c echo.Context, err error) error {
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
	v, verr := s.signedIn(ctx, c) // what was refused keeps nobody signed in
	if verr != nil && !errors.Is(verr, errNobody) {
		v = nil
	}
	page := failPage{Status: line.Status, Detail: e.Public, Request: ev.ID, SignedIn: v != nil, Away: !s.mux.AtPages(c.Request())}
	title := line.Title
	if page.Away {
		title = "The console is elsewhere"
	}
	return s.draw(c, line.Status, v, "fail", frame{Title: title}, page)
}
