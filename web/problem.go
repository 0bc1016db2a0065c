package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"ebb/broker"
)

// Problem is an RFC 9457 document.
type Problem struct {
	Type       string         `json:"type"` // <public URL>/problems/<kind>, stable
	Title      string         `json:"title"`
	Status     int            `json:"status"`
	Detail     string         `json:"detail,omitempty"`
	Instance   string         `json:"instance"`              // the request id
	RetryAfter int64          `json:"retry_after,omitempty"` // seconds
	Advice     *broker.Advice `json:"advice,omitempty"`
	// Reached says how far an end has got that is not recorded everywhere yet.
	Reached *broker.Reached `json:"reached,omitempty"`
	Missing []string        `json:"missing,omitempty"` // with step_up_required: the proofs that an approval lacks
}

// Fail answers with err in the form that the path's clients read: OAuth's at
// /oauth2, a page for a browser that leads somebody to another page than the API's, a
// problem document everywhere else.
func (m *Mux) Fail(c echo.Context, err error) error {
	path, below := strings.CutPrefix(c.Request().URL.Path, m.base+"/")
	first, _, _ := strings.Cut(path, "/")
	switch {
	case below && first == "oauth2" && path != first:
		return writeOAuthError(c, fromEcho(err))
	case m.pages == nil, !below, slices.Contains([]string{"oauth2", "v1", ".well-known", "problems"}, first), c.Request().Header.Get("Sec-Fetch-Mode") != "navigate":
		return m.WriteProblem(c, err)
	}
	return m.pages(c, fromEcho(err))
}

// WriteProblem answers with the problem document of err, whatever err is. A
// response that has begun is left alone.
func (m *Mux) WriteProblem(c echo.Context, err error) error {
	e := fromEcho(err)
	ev := EventOf(c)
	ev.fail(e)
	if c.Response().Committed {
		return nil
	}
	line := Lookup(e.Kind)
	kind := e.Kind
	if line.Status == http.StatusInternalServerError {
		kind = broker.Internal // a kind without a line has no page either
	}
	p := Problem{Type: m.publicURL + "/problems/" + string(kind), Title: line.Title, Status: line.Status,
		Detail: e.Public, Instance: ev.ID, RetryAfter: retryAfter(e, line.Status), Advice: e.Advice, Reached: e.Reached, Missing: e.Missing}
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

// fromEcho gives the router's own errors a kind.
func fromEcho(err error) *broker.Error {
	he, ok := errors.AsType[*echo.HTTPError](err)
	if !ok {
		return broker.AsError(err)
	}
	switch he.Code {
	case http.StatusNotFound:
		return broker.E(broker.NotFound, "There is nothing at this path.", nil)
	case http.StatusMethodNotAllowed:
		return broker.E(MethodNotAllowed, "This path does not answer that method; see the Allow header.", nil)
	}
	return broker.E(broker.Internal, "The broker failed. Try again; if it lasts, ask the operator.", err)
}
