package shell

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

type failPage struct {
	Status  int
	Detail  string     // what to do next
	Request string     // id of this request in ebb's log
	Roles   []string   // of a visitor who lacks the required role
	Again   string     // path of this page, if a later attempt may succeed; "" = it cannot
	Next    []NavEntry // pages where the visitor can go on; none = not signed in
	Away    bool       // requested at a host name that is not the console's: the page has no links
}

// titles replaces titles of the API that use terms of HTTP or assume a program as the reader.
var titles = map[broker.Kind]string{
	broker.Unauthenticated: "You are not signed in", broker.Conflict: "This cannot be done now", web.MethodNotAllowed: "There is no page at this address",
}

// Fail shows an error. The page contains its public kind and sentence, never the cause.
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
	page := failPage{Status: line.Status, Detail: e.Public, Request: ev.ID, Next: s.next(c, v), Away: !s.mux.AtPages(c.Request())}
	if v != nil && e.Kind == broker.Forbidden {
		for _, r := range v.Roles {
			page.Roles = append(page.Roles, string(r))
		}
	}
	if c.Response().Header().Get("Retry-After") != "" && c.Request().Method == http.MethodGet {
		if path := strings.TrimPrefix(c.Request().URL.RequestURI(), s.Base()); s.IsPage(path) {
			page.Again = path
		}
	}
	title := cmp.Or(titles[e.Kind], line.Title)
	if page.Away {
		title = "The console has another address"
	}
	if e.Kind == web.MethodNotAllowed {
		page.Detail = "This address does not accept this kind of request."
	}
	return s.Draw(c, line.Status, v, "fail", Frame{Title: title}, page)
}

// next returns the pages on which a visitor can go on after an error: the list that the page
// belongs to, the first page of the visitor's work, and the settings, which show the roles.
func (s *Shell) next(c echo.Context, v *session.Visit) (out []NavEntry) {
	if v == nil {
		return nil
	}
	paths := []string{"/queue", "/settings"}
	if v.Has(broker.RoleAuditor) {
		paths[0] = "/audit"
	} else if v.Has(broker.RoleOperator) {
		paths[0] = "/tasks"
	}
	if own, _, _ := strings.Cut(strings.TrimPrefix(c.Path(), s.Base()+"/"), "/"); own != "" && !slices.Contains(paths, "/"+own) {
		paths = slices.Insert(paths, 0, "/"+own)
	}
	for _, path := range paths {
		if i := s.offered(v, path); i >= 0 {
			out = append(out, s.nav[i])
		}
	}
	return out
}

// contentPolicy is the same on every page, except for AllowWorker. Nothing is inline, so it needs no
// nonce. Scripts cannot turn text into HTML (Trusted Types).
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// AllowWorker changes the policy of the page that registers the service worker: its address
// needs a Trusted Types policy with a name.
func AllowWorker(h http.Header) {
	h.Set("Content-Security-Policy", strings.Replace(contentPolicy, "trusted-types 'none'", "trusted-types ebb-push", 1))
}

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

// Guarded sets the headers of a page and shows errors as pages. For a host name that is not the
// console's it only answers with an error, and neither reads nor sets cookies. It does not redirect
// to the right name, because programs also call this name.
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
