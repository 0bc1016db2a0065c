package shell

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

type failPage struct {
	Status   int
	Detail   string // what to do next
	Request  string // id of this request in ebb's log
	SignedIn bool
	Away     bool // requested at a host name that is not the console's: the page has no links
}

// Fail shows an error. The page contains its public kind and sentence, never
// the cause.
func (s *Shell) Fail(c echo.Context, err error) error {
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
	ctx, cancel := context.WithTimeout(c.Request().Context(), session.ReadTime)
	defer cancel()
	v, verr := s.sessions.SignedIn(ctx, c) // SignedIn does not extend the session
	if verr != nil && !errors.Is(verr, session.ErrNobody) {
		v = nil
	}
	page := failPage{Status: line.Status, Detail: e.Public, Request: ev.ID, SignedIn: v != nil, Away: !s.mux.AtPages(c.Request())}
	title := line.Title
	if page.Away {
		title = "The console has another address"
	}
	return s.Draw(c, line.Status, v, "fail", Frame{Title: title}, page)
}

// contentPolicy is the same on every page. Nothing is inline, so it needs no
// nonce. Scripts cannot turn text into HTML (Trusted Types).
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Headers sets the headers of every page.
func Headers(h http.Header) {
	for name, value := range map[string]string{
		"Content-Security-Policy":    contentPolicy,
		"Referrer-Policy":            "same-origin", // "no-referrer" would send Origin: null with our own forms
		"Cross-Origin-Opener-Policy": "same-origin",
		"Permissions-Policy":         "publickey-credentials-get=(self), publickey-credentials-create=(self), camera=(), geolocation=(), microphone=()",
		"Cache-Control":              "no-store",
	} {
		h.Set(name, value)
	}
}

// Guarded sets the headers of a page and shows errors as pages. For a host name
// that is not the console's it only answers with an error, and neither reads
// nor sets cookies. It does not redirect to the right name, because programs
// also call this name.
func (s *Shell) Guarded(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		Headers(c.Response().Header())
		if !s.mux.AtPages(c.Request()) {
			return s.Fail(c, broker.E(web.Misdirected, "The console has its own host name on this machine. 'ebb console' prints a link to it, which you can bookmark.", nil))
		}
		if err := h(c); err != nil {
			return s.Fail(c, err)
		}
		return nil
	}
}
