package web

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/trace"

	"github.com/ebb-broker/ebb/broker"
)

// pipeline is the middleware of every route, including unknown paths.
func (m *Mux) pipeline(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := m.now()
		ev := &Event{ID: rand.Text()}
		c.Set(eventKey, ev)
		m.headers(c.Response().Header(), ev.ID)
		m.metrics.inFlight.Inc()
		defer m.metrics.inFlight.Dec()
		err := m.guarded(c, next)
		if err != nil {
			err = m.Fail(c, err)
		}
		m.finish(c, ev, m.now().Sub(start))
		return err
	}
}

// Header values of every response. The slices are shared: http.Header replaces
// a value, and append copies a full slice.
var (
	nosniff    = []string{"nosniff"}
	noContent  = []string{"default-src 'none'; frame-ancestors 'none'"}
	noFrame    = []string{"DENY"}
	noReferrer = []string{"no-referrer"}
	sameOrigin = []string{"same-origin"}
	oneYear    = []string{"max-age=31536000"}
)

// headers sets the headers of every response. Surfaces with pages override the
// Content-Security-Policy.
func (m *Mux) headers(h http.Header, id string) {
	h["X-Request-Id"] = []string{id}
	h["X-Content-Type-Options"] = nosniff
	h["Content-Security-Policy"] = noContent
	h["X-Frame-Options"] = noFrame
	h["Referrer-Policy"] = noReferrer
	h["Cross-Origin-Resource-Policy"] = sameOrigin
	if m.secure {
		h["Strict-Transport-Security"] = oneYear
	}
}

// guarded runs the handler within the limits and turns a panic into an error.
func (m *Mux) guarded(c echo.Context, next echo.HandlerFunc) (err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if r == http.ErrAbortHandler {
			panic(r)
		}
		m.log.LogAttrs(c.Request().Context(), slog.LevelError, "panic", slog.String("request_id", EventOf(c).ID), slog.String("stack", string(debug.Stack())))
		if c.Response().Committed {
			// Half a response must not look like a complete one.
			panic(http.ErrAbortHandler)
		}
		err = broker.E(broker.Internal, "Internal error. Try again; if it persists, ask the operator.", fmt.Errorf("panic: %v", r))
	}()
	r := c.Request()
	if len(r.RequestURI) > m.limits.URL {
		return broker.E(URLTooLong, "The request target is too long.", nil)
	}
	if !m.secure && !loopbackHost(r.Host) && !m.namesPages(r.Host) {
		// DNS rebinding: a foreign host name that resolves to loopback would
		// let a web page read this server.
		return broker.E(Misdirected, "Use the host name 127.0.0.1 or localhost for this server.", nil)
	}
	r.Body = http.MaxBytesReader(c.Response(), r.Body, m.limits.Body+1)
	return next(c)
}

// finish writes the log event and the metrics of a request.
func (m *Mux) finish(c echo.Context, ev *Event, took time.Duration) {
	r, res := c.Request(), c.Response()
	route := c.Path()
	if route == "" || res.Status == http.StatusNotFound && ev.Actor == "" && ev.Kind == broker.NotFound {
		route = "unmatched"
	}
	method := fixedMethod(r.Method)
	m.metrics.observe(route, method, res.Status, took)
	if m.spans {
		trace.SpanFromContext(r.Context()).SetName(method + " " + route)
	}
	level := slog.LevelInfo
	switch {
	case res.Status >= 500:
		level = slog.LevelError
	case ev.Quiet:
		level = slog.LevelDebug
	}
	if !m.log.Enabled(r.Context(), level) {
		return
	}
	// Log the route, never the URL: a query or an unknown path may contain secrets.
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs, slog.String("request_id", ev.ID), slog.String("method", method), slog.String("route", route),
		slog.Int("status", res.Status), slog.Int64("bytes", res.Size), slog.Duration("took", took), slog.String("client", m.proxies.ClientIP(r)))
	if m.spans {
		if sc := trace.SpanContextFromContext(r.Context()); sc.HasTraceID() {
			attrs = append(attrs, slog.String("trace_id", sc.TraceID().String()))
		}
	}
	m.log.LogAttrs(r.Context(), level, "request", ev.attrs(attrs)...)
}

// fixedMethod limits labels and log lines to a closed set.
func fixedMethod(s string) string {
	switch s {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return s
	}
	return "OTHER"
}
