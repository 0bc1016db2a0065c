package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/wire"
)

// Fail sends err in the form that clients of the path expect: OAuth's at /oauth2, a page for
// browser navigation outside the API, and a problem document everywhere else.
func (m *Mux) Fail(c echo.Context, err error) error {
	path, below := strings.CutPrefix(c.Request().URL.Path, m.base+"/")
	first, _, _ := strings.Cut(path, "/")
	switch {
	case below && first == "oauth2" && path != first:
		return writeOAuthError(c, fromEcho(err))
	case m.pages == nil, !below, slices.Contains([]string{"oauth2", "v1", ".well-known", "problems"}, first), c.Request().Header.Get("Sec-Fetch-Mode") != "navigate":
		return m.writeProblem(c, err)
	}
	return m.pages(c, fromEcho(err))
}

// writeProblem sends the problem document of any error. It does nothing when
// the response has begun.
func (m *Mux) writeProblem(c echo.Context, err error) error {
	e := fromEcho(err)
	ev := EventOf(c)
	ev.fail(e)
	if c.Response().Committed {
		return nil
	}
	line := Lookup(e.Kind)
	kind := e.Kind
	if line.Status == http.StatusInternalServerError {
		kind = broker.Internal // an unknown kind has no page at /problems
	}
	p := wire.Problem{Type: m.publicURL + "/problems/" + string(kind), Title: line.Title, Status: line.Status,
		Detail: e.Public, Instance: ev.ID, Advice: advice(e.Advice), Reached: reached(e.Reached), Missing: e.Missing}
	p.RetryAfter, p.Next = retry(e, line.Status)
	h := c.Response().Header()
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(p.RetryAfter, 10))
	}
	h.Set("Cache-Control", "no-store")
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return c.Blob(line.Status, "application/problem+json", body)
}

// fromEcho converts the router's errors.
func fromEcho(err error) *broker.Error {
	he, ok := errors.AsType[*echo.HTTPError](err)
	if !ok {
		return broker.AsError(err)
	}
	switch he.Code {
	case http.StatusNotFound:
		return broker.E(broker.NotFound, "There is no page or resource at this path.", nil)
	case http.StatusMethodNotAllowed:
		return broker.E(MethodNotAllowed, "This path does not support the method. See the Allow header.", nil)
	}
	return broker.E(broker.Internal, "Internal error. Try again; if it persists, ask the operator.", err)
}

// advice and reached convert the core's types to those of the API, as
// web/api/convert*.go does for responses.
func advice(a *broker.Advice) *wire.Advice {
	if a == nil {
		return nil
	}
	return &wire.Advice{
		Decision: a.Decision, Code: wire.DenyCode(a.Code), Note: a.Note, WouldAllow: a.WouldAllow.String(),
		RetryAfter: a.RetryAfter, DoNotRetrySame: a.DoNotRetrySame,
	}
}

func reached(r *broker.Reached) *wire.Reached {
	if r == nil {
		return nil
	}
	out := wire.Reached(*r)
	return &out
}
